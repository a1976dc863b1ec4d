package webhook

import (
	"context"
	"errors"

	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/webhook"
)

// spec and status are the parts of a SubjectAccessReview. The field of groups has another name in
// v1beta1.
type spec struct {
	ResourceAttributes    *resourceAttributes    `json:"resourceAttributes,omitempty"`
	NonResourceAttributes *nonResourceAttributes `json:"nonResourceAttributes,omitempty"`
	User                  string                 `json:"user,omitempty"`
	Groups                []string               `json:"groups,omitempty"`
	Group                 []string               `json:"group,omitempty"`
	Extra                 map[string][]string    `json:"extra,omitempty"`
	UID                   string                 `json:"uid,omitempty"`
}

type resourceAttributes struct {
	Namespace   string `json:"namespace,omitempty"`
	Verb        string `json:"verb,omitempty"`
	Group       string `json:"group,omitempty"`
	Version     string `json:"version,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`

	FieldSelector *selector `json:"fieldSelector,omitempty"`
	LabelSelector *selector `json:"labelSelector,omitempty"`
}

type selector struct {
	Requirements []requirement `json:"requirements"`
}

type requirement struct {
	Key      string         `json:"key"`
	Operator authz.Operator `json:"operator"`
	Values   []string       `json:"values,omitempty"`
}

func newSelector(from []authz.Requirement) *selector {
	if len(from) == 0 {
		return nil
	}
	var s selector
	for _, r := range from {
		s.Requirements = append(s.Requirements, requirement(r))
	}
	return &s
}

type nonResourceAttributes struct {
	Path string `json:"path,omitempty"`
	Verb string `json:"verb,omitempty"`
}

type status struct {
	Allowed bool   `json:"allowed"`
	Denied  bool   `json:"denied"`
	Reason  string `json:"reason"`
}

var errBoth = errors.New("authorization webhook: the answer both allows and denies")

// review calls the service. An error means that there is no answer.
func (a *Authorizer) review(ctx context.Context, at *authz.Attributes) (answer, error) {
	s, err := webhook.Ask[spec, status](ctx, a.service, a.apiVersion, "SubjectAccessReview", a.spec(at))
	switch {
	case err != nil:
		return answer{}, err
	case s.Denied && s.Allowed:
		return answer{authz.Deny, s.Reason, errBoth}, nil
	case s.Denied:
		return answer{authz.Deny, s.Reason, nil}, nil
	case s.Allowed:
		return answer{authz.Allow, s.Reason, nil}, nil
	}
	return answer{authz.NoOpinion, s.Reason, nil}, nil
}

func (a *Authorizer) spec(at *authz.Attributes) spec {
	var s spec
	if u := at.User; u != nil {
		s.User, s.UID, s.Groups, s.Extra = u.Name, u.UID, u.Groups, u.Extra
	}
	if a.config.Version == "v1beta1" {
		s.Group, s.Groups = s.Groups, nil
	}
	if at.Resource == "" {
		s.NonResourceAttributes = &nonResourceAttributes{at.Path, at.Verb}
		return s
	}
	s.ResourceAttributes = &resourceAttributes{
		Namespace: at.Namespace, Verb: at.Verb, Group: at.Group, Version: at.Version,
		Resource: at.Resource, Subresource: at.Subresource, Name: at.Name,
		FieldSelector: newSelector(at.Fields), LabelSelector: newSelector(at.Labels),
	}
	return s
}
