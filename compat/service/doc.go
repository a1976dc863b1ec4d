// Package service compares the rules of planekit's service proxy with those of stock kube-proxy in its
// nftables mode: the same services and endpoints, real packets, the same outcomes.
package service
