package kube

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// InitializerConfigurations is the resource that configures the plugin of package
// admission/initializers. It is an alpha of Kubernetes that is gone, so it is not
// among [Resources]: who has the plugin adds it.
func InitializerConfigurations() apiserver.Resource {
	type config = initializers.InitializerConfiguration
	return apiserver.Resource{
		Group:   initializers.GroupName,
		Version: initializers.Version,
		Kind:    "InitializerConfiguration",
		Plural:  "initializerconfigurations",
		New:     func() runtime.Object { return &config{} },
		NewList: func() runtime.Object { return &initializers.InitializerConfigurationList{} },
		Strategy: strategy[*config]{
			create: func(c *config) { c.Generation = 1 },
			update: func(c, old *config) {
				c.Generation = nextGeneration(old.Generation, differ(c.Initializers, old.Initializers))
			},
			validate:       validateInitializers,
			validateUpdate: func(c, _ *config) field.ErrorList { return validateInitializers(c) },
		}.erase(),
		Columns: []apiserver.Column{
			number("Initializers", "Initializers indicates the number of initializers registered in this configuration", func(c *config) int64 { return int64(len(c.Initializers)) }),
			age[*config](),
		},
	}
}

func validateInitializers(c *initializers.InitializerConfiguration) field.ErrorList {
	var ps problems
	seen := map[string]bool{}
	for i, one := range c.Initializers {
		p := field.NewPath("initializers").Index(i)
		if ps.required(p.Child("name"), one.Name) {
			ps.subdomain(p.Child("name"), one.Name)
			ps.valid(len(strings.Split(one.Name, ".")) > 2, p.Child("name"), one.Name, "should be a domain with at least three segments separated by dots")
			ps.unique(!seen[one.Name], p.Child("name"), one.Name)
			seen[one.Name] = true
		}
		for j, rule := range one.Rules {
			at := p.Child("rules").Index(j)
			initializerList(&ps, at.Child("apiGroups"), rule.APIGroups, true)
			initializerList(&ps, at.Child("apiVersions"), rule.APIVersions, false)
			initializerList(&ps, at.Child("resources"), rule.Resources, false)
			for n, resource := range rule.Resources {
				ps.valid(!strings.Contains(resource, "/"), at.Child("resources").Index(n), resource, "must not specify subresources")
			}
		}
	}
	return ps.list
}

// initializerList checks one list of a rule.
func initializerList(ps *problems, p *field.Path, list []string, emptyIsCore bool) {
	ps.present(len(list) > 0, p, "")
	ps.valid(len(list) < 2 || !slices.Contains(list, "*"), p, list, "if '*' is present, must not specify other values")
	for i, value := range list {
		ps.present(value != "" || emptyIsCore, p.Index(i), "")
	}
}
