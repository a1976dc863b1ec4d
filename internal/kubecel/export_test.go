package kubecel

import "github.com/google/cel-go/interpreter"

// Costs returns what calls of Kubernetes' functions cost.
func Costs() interpreter.ActualCostEstimator { return costs{} }
