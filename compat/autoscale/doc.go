// Package autoscale compares the calculation of replicas of reconcile/controllers/autoscale with the one of
// kube-controller-manager.
package autoscale
