package embedded

// CatchUpEntries is for tests.
const CatchUpEntries = catchUpEntries
