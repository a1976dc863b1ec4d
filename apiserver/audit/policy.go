package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/authz"
	"sigs.k8s.io/yaml"
)

// A Level is how much of a request is recorded.
type Level string

// The levels in ascending order. Each includes the previous one.
const (
	None            Level = "None"
	Metadata        Level = "Metadata"
	Request         Level = "Request"
	RequestResponse Level = "RequestResponse"
)

// A Stage is a point in the course of a request.
type Stage string

// The stages. ResponseStarted is that of long-running requests only.
const (
	RequestReceived  Stage = "RequestReceived"
	ResponseStarted  Stage = "ResponseStarted"
	ResponseComplete Stage = "ResponseComplete"
	Panic            Stage = "Panic"
)

// Policy decides what is recorded, by the first rule that matches a request. A request that no rule
// matches is not recorded. The type is that of audit.k8s.io/v1
// (https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/).
type Policy struct {
	Kind       string         `json:"kind"`
	APIVersion string         `json:"apiVersion"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Rules      []Rule         `json:"rules"`
	// OmitStages are written for no rule.
	OmitStages []Stage `json:"omitStages,omitempty"`
	// OmitManagedFields leaves metadata.managedFields out of bodies, unless a rule
	// says otherwise.
	OmitManagedFields bool `json:"omitManagedFields,omitempty"`
}

// Rule fits requests that match all of its fields; empty fields match any.
type Rule struct {
	Level      Level    `json:"level"`
	Users      []string `json:"users,omitempty"`
	UserGroups []string `json:"userGroups,omitempty"`
	Verbs      []string `json:"verbs,omitempty"`
	// Resources and Namespaces are for requests for resources, where the empty
	// namespace is that of what has none. A rule with them does not fit others.
	Resources  []GroupResources `json:"resources,omitempty"`
	Namespaces []string         `json:"namespaces,omitempty"`
	// NonResourceURLs are paths. A * at the end matches any text.
	NonResourceURLs   []string `json:"nonResourceURLs,omitempty"`
	OmitStages        []Stage  `json:"omitStages,omitempty"`
	OmitManagedFields *bool    `json:"omitManagedFields,omitempty"`
}

// GroupResources are resources of one API group: pods, pods/log, pods/*, */scale
// or *. Without any it is all of the group's.
type GroupResources struct {
	Group         string   `json:"group,omitempty"`
	Resources     []string `json:"resources,omitempty"`
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// ParsePolicy reads a policy, YAML or JSON. Fields it does not know are errors:
// a rule that is misspelled must not pass for one that says less.
func ParsePolicy(data []byte) (*Policy, error) {
	p := &Policy{}
	if err := yaml.UnmarshalStrict(data, p); err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	if p.Kind != "Policy" || p.APIVersion != "audit.k8s.io/v1" {
		return nil, fmt.Errorf("audit policy: it is %q of %q, not Policy of audit.k8s.io/v1", p.Kind, p.APIVersion)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	return p, nil
}

func (p *Policy) check() error {
	if len(p.Rules) == 0 {
		return errors.New("no rules")
	}
	if err := checkStages(p.OmitStages); err != nil {
		return err
	}
	for i := range p.Rules {
		if err := p.Rules[i].check(); err != nil {
			return fmt.Errorf("rules[%d]: %w", i, err)
		}
	}
	return nil
}

func (r *Rule) check() error {
	if !slices.Contains([]Level{None, Metadata, Request, RequestResponse}, r.Level) {
		return fmt.Errorf("level %q: it must be None, Metadata, Request or RequestResponse", r.Level)
	}
	if len(r.NonResourceURLs) > 0 && len(r.Resources)+len(r.Namespaces) > 0 {
		return errors.New("a rule is about resources or about other URLs, not both")
	}
	for _, url := range r.NonResourceURLs {
		switch {
		case url == "*":
		case !strings.HasPrefix(url, "/"):
			return fmt.Errorf("nonResourceURLs: %q: it must begin with /", url)
		case strings.Contains(strings.TrimSuffix(url, "*"), "*"):
			return fmt.Errorf("nonResourceURLs: %q: * may stand at the end only", url)
		}
	}
	for _, g := range r.Resources {
		if strings.Contains(g.Group, "/") {
			return fmt.Errorf("resources: %q is no group", g.Group)
		}
		if len(g.ResourceNames) > 0 && len(g.Resources) == 0 {
			return errors.New("resources: resourceNames need resources")
		}
	}
	return checkStages(r.OmitStages)
}

func checkStages(stages []Stage) error {
	for _, s := range stages {
		if !slices.Contains([]Stage{RequestReceived, ResponseStarted, ResponseComplete, Panic}, s) {
			return fmt.Errorf("omitStages: no stage %q", s)
		}
	}
	return nil
}

// verdict is the decision of a policy about one request.
type verdict struct {
	level             Level
	omit              []Stage
	omitManagedFields bool
}

func (p *Policy) judge(a authz.Attributes) verdict {
	for i := range p.Rules {
		r := &p.Rules[i]
		if !r.fits(a) {
			continue
		}
		v := verdict{level: r.Level, omit: append(slices.Clone(p.OmitStages), r.OmitStages...), omitManagedFields: p.OmitManagedFields}
		if r.OmitManagedFields != nil {
			v.omitManagedFields = *r.OmitManagedFields
		}
		return v
	}
	return verdict{level: None}
}

func (r *Rule) fits(a authz.Attributes) bool {
	if len(r.Users) > 0 && (a.User == nil || !slices.Contains(r.Users, a.User.Name)) {
		return false
	}
	if len(r.UserGroups) > 0 && !slices.ContainsFunc(r.UserGroups, a.User.In) {
		return false
	}
	if len(r.Verbs) > 0 && !slices.Contains(r.Verbs, a.Verb) {
		return false
	}
	switch {
	case len(r.Resources)+len(r.Namespaces) > 0:
		return a.Resource != "" && r.fitsResource(a)
	case len(r.NonResourceURLs) > 0:
		return a.Resource == "" && slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return fitsURL(url, a.Path) })
	}
	return true
}

func (r *Rule) fitsResource(a authz.Attributes) bool {
	if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, a.Namespace) {
		return false
	}
	if len(r.Resources) == 0 {
		return true
	}
	whole := a.Resource
	if a.Subresource != "" {
		whole += "/" + a.Subresource
	}
	for _, g := range r.Resources {
		if g.Group != a.Group || len(g.ResourceNames) > 0 && !slices.Contains(g.ResourceNames, a.Name) {
			continue
		}
		if len(g.Resources) == 0 {
			return true
		}
		for _, name := range g.Resources {
			resource, sub, divided := strings.Cut(name, "/")
			switch {
			case name == "*", name == whole:
				return true
			case divided && sub == "*" && resource == a.Resource:
				return true
			case divided && resource == "*" && a.Subresource != "" && sub == a.Subresource:
				return true
			}
		}
	}
	return false
}

func fitsURL(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
