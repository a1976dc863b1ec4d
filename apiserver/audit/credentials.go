package audit

import "github.com/planekit/planekit/authz"

// withoutCredentials lowers the level for requests whose bodies hold tokens that
// can be used, whatever the policy says: a log is read by more people than may
// act as its users.
func withoutCredentials(level Level, a authz.Attributes) Level {
	if level != Request && level != RequestResponse {
		return level
	}
	issued := a.Group == "" && a.Resource == "serviceaccounts" && a.Subresource == "token"
	reviewed := a.Group == "authentication.k8s.io" && a.Resource == "tokenreviews"
	if issued || reviewed {
		return Metadata
	}
	return level
}
