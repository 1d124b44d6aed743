//! Memory that may be refused: an item that does not fit is an error of a call, not the end of the shell.

use std::collections::TryReserveError;

/// Makes room for `more` elements. Never by `realloc`, as [`Vec::try_reserve`] does it: when that fails in a large block,
/// the allocator of bash 5.1 to 5.3 leaves the block broken and ends the shell when it is freed.
pub fn make_room<T>(vector: &mut Vec<T>, more: usize) -> Result<(), TryReserveError> {
    if vector.capacity() - vector.len() >= more {
        return Ok(());
    }
    let mut larger = Vec::new();
    larger.try_reserve_exact(vector.len().saturating_add(more).max(vector.capacity().saturating_mul(2)))?;
    larger.append(vector);
    *vector = larger;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_by_doubling_and_keeps_the_content() {
        let mut vector = vec![1, 2, 3];
        vector.shrink_to_fit();
        make_room(&mut vector, 1).unwrap();
        assert_eq!((vector.as_slice(), vector.capacity()), (&[1, 2, 3][..], 6));
        make_room(&mut vector, 3).unwrap();
        assert_eq!(vector.capacity(), 6);
        make_room(&mut vector, 100).unwrap();
        assert_eq!((vector.as_slice(), vector.capacity()), (&[1, 2, 3][..], 103));
    }

    #[test]
    fn too_much_is_refused_and_nothing_is_lost() {
        let mut vector = vec![1u8];
        assert!(make_room(&mut vector, usize::MAX).is_err());
        assert_eq!(vector, [1]);
    }
}
