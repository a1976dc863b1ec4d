// Package rbac tests that package authz/rbac decides as kube-apiserver's RBAC
// authorizer does: the same random roles, bindings, users and requests to both;
// that package admission/escalation refuses what its storage of roles refuses, in
// the same words; and that a new cluster has the same policy.
//
//	go test -v ./rbac -args -decisions 5000000
package rbac
