// Package dns compares the answers of planekit's DNS server with those of stock CoreDNS, on the same
// services and endpoints of planekit's API server.
package dns
