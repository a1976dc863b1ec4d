// Package pair has a stock kube-apiserver and a plane that is set up like it, objects for both, and the comparison of what
// they answer. Differences are held to rows of COMPATIBILITY.md.
package pair
