// Package policytypes compares the check of types of ValidatingAdmissionPolicies with the one of
// kube-controller-manager.
package policytypes
