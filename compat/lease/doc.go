// Package lease tests that planekit's electors and client-go's can share a Lease. Of candidates of
// both kinds one leads at a time. A candidate that releases the lease lets another lead at once.
// After a candidate that was cut off, another leads when the lease has expired.
package lease
