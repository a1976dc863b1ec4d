// Package deployment holds the controller of Deployments: it rolls out pod templates by creating and
// scaling ReplicaSets.
//
// The functions in plan.go, scale.go, set.go and status.go decide without IO or clock; deployment.go
// carries the plan out.
package deployment
