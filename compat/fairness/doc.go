// Package fairness tests that FlowSchemas and PriorityLevelConfigurations are
// defaulted, validated and shown as by kube-apiserver, and that clusters begin with the
// same ones.
package fairness
