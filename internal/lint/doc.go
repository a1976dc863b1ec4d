// Package lint holds the checks that every commit passes: gofmt, go vet,
// staticcheck, a package comment everywhere, and bounds on how long files and
// functions grow. It has only tests. The linters' versions are in tools.mod, so
// that they are not among the library's requirements.
package lint
