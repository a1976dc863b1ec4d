// Package overlay tests that planekit's VXLAN overlay and a VXLAN that is made by hand with iproute2
// speak to each other, and that both put the same into the kernel and onto the wire.
package overlay
