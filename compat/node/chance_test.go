package node

import (
	"flag"
	"math/rand/v2"

	"github.com/planekit/planekit/authz"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

var decisions = flag.Int("decisions", 1_000_000, "random decisions to compare")

// world makes random objects and requests from few words, so that they match.
type world struct{ *rand.Rand }

func (w world) pick(words ...string) string { return words[w.IntN(len(words))] }

func forStock(a authz.Attributes) authorizer.Attributes {
	var narrowed fields.Requirements
	for _, r := range a.Fields {
		operator := map[authz.Operator]selection.Operator{authz.In: selection.Equals, authz.NotIn: selection.NotEquals}[r.Operator]
		narrowed = append(narrowed, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
	}
	return authorizer.AttributesRecord{
		FieldSelectorRequirements: narrowed,
		User:                      &stockuser.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}, Verb: a.Verb, Namespace: a.Namespace,
		APIGroup: a.Group, APIVersion: a.Version, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		ResourceRequest: a.Resource != "", Path: a.Path,
	}
}
