package admissionregistration

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// InitializerConfigurations returns the resource that configures the plugin of package
// admission/initializers. Kubernetes removed this alpha API, so [Resources] does not have it: a
// program with the plugin adds it.
func InitializerConfigurations() apiserver.Resource {
	type config = initializers.InitializerConfiguration
	return apiserver.For(initializers.Configurations, apiserver.Resource{
		Conditional: true,
		Strategy: define.Strategy[*config]{
			Counted:        func(c *config) any { return c.Initializers },
			Validate:       validateInitializers,
			ValidateUpdate: func(c, _ *config) field.ErrorList { return validateInitializers(c) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Number("Initializers", "Initializers indicates the number of initializers registered in this configuration", func(c *config) int64 { return int64(len(c.Initializers)) }),
			column.Age[*config](),
		},
	})
}

func validateInitializers(c *initializers.InitializerConfiguration) field.ErrorList {
	var ps check.Problems
	seen := map[string]bool{}
	for i, one := range c.Initializers {
		p := field.NewPath("initializers").Index(i)
		if ps.Required(p.Child("name"), one.Name) {
			ps.Subdomain(p.Child("name"), one.Name)
			ps.Valid(len(strings.Split(one.Name, ".")) > 2, p.Child("name"), one.Name, "should be a domain with at least three segments separated by dots")
			ps.Unique(!seen[one.Name], p.Child("name"), one.Name)
			seen[one.Name] = true
		}
		for j, rule := range one.Rules {
			at := p.Child("rules").Index(j)
			initializerList(&ps, at.Child("apiGroups"), rule.APIGroups, true)
			initializerList(&ps, at.Child("apiVersions"), rule.APIVersions, false)
			initializerList(&ps, at.Child("resources"), rule.Resources, false)
			for n, resource := range rule.Resources {
				ps.Valid(!strings.Contains(resource, "/"), at.Child("resources").Index(n), resource, "must not specify subresources")
			}
		}
	}
	return ps.List
}

// initializerList checks one list of a rule.
func initializerList(ps *check.Problems, p *field.Path, list []string, emptyIsCore bool) {
	ps.Present(len(list) > 0, p, "")
	ps.Valid(len(list) < 2 || !slices.Contains(list, "*"), p, list, "if '*' is present, must not specify other values")
	for i, value := range list {
		ps.Present(value != "" || emptyIsCore, p.Index(i), "")
	}
}
