// Package certificates holds the controllers of CertificateSigningRequests
// (https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/).
//
// [Approver] approves the client certificates of nodes if their users may have them, [ServingApprover]
// approves the serving certificates of nodes whose names and addresses it knows, [Signer] issues the
// certificates of the signers kubernetes.io/..., and [Cleaner] deletes old requests.
//
// Kubernetes has no ServingApprover: there, a person or another program approves the serving
// certificates of kubelets. A cluster that wants that leaves it out.
//
// A request that its signer cannot accept gets the condition Failed with the reason
// SignerValidationFailure. It stays approved, and is not tried again.
package certificates
