//! Lets a test stand at the places where work on the tree waits for the disk: to look at locks, to write
//! from there, or to copy the files as a crash would leave them.

use std::cell::RefCell;
use std::rc::Rc;

type Look = Rc<RefCell<dyn FnMut(&'static str)>>;

thread_local! {
    static LOOK: RefCell<Option<Look>> = const { RefCell::new(None) };
}

/// Called at each such place, with what is about to happen or has happened there.
pub fn reached(place: &'static str) {
    // Taken out, so that what is done there does not come here again.
    let look = LOOK.with(|current| current.borrow_mut().take());

    if let Some(look) = look {
        (look.borrow_mut())(place);
        LOOK.with(|current| *current.borrow_mut() = Some(look));
    }
}

/// Runs the work, and `look` at each place that this thread comes to meanwhile.
pub fn looking<T>(look: impl FnMut(&'static str) + 'static, work: impl FnOnce() -> T) -> T {
    LOOK.with(|current| *current.borrow_mut() = Some(Rc::new(RefCell::new(look))));
    let result = work();
    LOOK.with(|current| current.borrow_mut().take());
    result
}
