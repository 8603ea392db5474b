//! A store whose places are used again.

/// Numbers that stay the same while their thing lives.
#[derive(Debug)]
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.items[number as usize] = Some(item);
                number
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    #[inline]
    pub fn get(&mut self, number: u32) -> &mut T {
        self.items[number as usize].as_mut().expect("a number lives as long as its thing")
    }

    #[inline]
    pub fn remove(&mut self, number: u32) -> T {
        self.free.push(number);
        self.items[number as usize].take().expect("a number lives as long as its thing")
    }

    /// The thing, if it still lives.
    pub fn find(&mut self, number: u32) -> Option<&mut T> {
        self.items[number as usize].as_mut()
    }

    /// What lives, by number.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}
