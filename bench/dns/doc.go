// Package dns measures planekit's DNS server beside stock CoreDNS, each a process of its own, on the same
// services of planekit's API server.
package dns
