// Package wholedir makes and removes directories as a whole: after a crash, a directory has its name and all its files,
// or it is gone.
//
// A directory that is being made or removed has another name below the same root. After a crash, [Open] removes
// directories with such names.
package wholedir
