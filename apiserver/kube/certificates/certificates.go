// Package certificates describes the kinds of the API group certificates.k8s.io to an API server:
// how each is validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, certificates.Resources()...)
//
// The group has CertificateSigningRequests, in version v1, and ClusterTrustBundles, in version
// v1beta1.
package certificates

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		CertificateSigningRequests(),
		ClusterTrustBundles(),
	}
}
