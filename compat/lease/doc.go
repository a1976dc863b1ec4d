// Package lease tests that planekit's electors and client-go's share a Lease: of
// candidates of both kinds one leads at a time, whoever releases lets the other in at
// once, and who is cut off is followed when the lease has lasted.
package lease
