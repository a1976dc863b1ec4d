// Package lint holds the checks that every commit passes: gofmt, go vet, staticcheck, a
// package comment everywhere, bounds on the length of files and functions, and plain English
// in names and comments. It contains only tests. tools.mod holds the versions of the linters,
// so that the library does not depend on them.
package lint
