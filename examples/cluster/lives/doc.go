// Package lives lets random pods live on a node of containerd whose kubelet, containerd, shims and
// sandboxes are killed meanwhile, and checks that nothing of them is left. It has only tests: "make lives"
// runs many lives, and the tests of the repository a few.
package lives
