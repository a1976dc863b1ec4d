// Package requests sends the same requests to a stock kube-apiserver and to a whole plane, and compares the codes, the
// warnings and the kinds of the responses. The requests are those of clients in other languages than Go, and of people.
package requests
