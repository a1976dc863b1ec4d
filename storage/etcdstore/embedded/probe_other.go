//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package embedded

// probe does nothing on systems without flock. There, etcd waits for a database that a stock etcd
// has open.
func probe(string) error { return nil }
