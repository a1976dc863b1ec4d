// Package house has tests of the repository as a whole: which package may import which, and that documents,
// pictures and comments say what the code does.
package house
