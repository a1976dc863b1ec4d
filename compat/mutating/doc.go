// Package mutating tests that MutatingAdmissionPolicies change objects as Kubernetes' own evaluation of them does, and
// refuse requests in the same words.
package mutating
