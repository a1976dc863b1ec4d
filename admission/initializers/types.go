package initializers

import (
	"slices"

	"github.com/planekit/planekit/kinds/kind"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// GroupName is the API group of the types, Version their version.
const (
	GroupName = "admissionregistration.k8s.io"
	Version   = "v1alpha1"
)

// Configurations is the kind of the objects that configure the plugin.
var Configurations = kind.Kind[*InitializerConfiguration]{
	Group: GroupName, Version: Version, Kind: "InitializerConfiguration", Plural: "initializerconfigurations",
	New:     func() *InitializerConfiguration { return &InitializerConfiguration{} },
	NewList: func() runtime.Object { return &InitializerConfigurationList{} },
}

// InitializerConfiguration lists initializers with their rules.
type InitializerConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Initializers act in this order, after those of configurations with lesser names.
	Initializers []Initializer `json:"initializers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// Initializer is a party that completes new objects.
type Initializer struct {
	// Name has at least three segments separated by dots, such as
	// "podimage.example.com".
	Name string `json:"name"`
	// Rules are the resources of the initializer; without rules it has none.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule matches a resource that is in all three lists. "*" alone matches everything.
type Rule struct {
	APIGroups   []string `json:"apiGroups,omitempty"`
	APIVersions []string `json:"apiVersions,omitempty"`
	Resources   []string `json:"resources,omitempty"`
}

// InitializerConfigurationList is a list of InitializerConfigurations.
type InitializerConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []InitializerConfiguration `json:"items"`
}

// DeepCopy returns a deep copy.
func (c *InitializerConfiguration) DeepCopy() *InitializerConfiguration {
	if c == nil {
		return nil
	}
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Initializers = slices.Clone(c.Initializers)
	for i := range out.Initializers {
		rules := slices.Clone(out.Initializers[i].Rules)
		for j := range rules {
			r := &rules[j]
			r.APIGroups, r.APIVersions, r.Resources = slices.Clone(r.APIGroups), slices.Clone(r.APIVersions), slices.Clone(r.Resources)
		}
		out.Initializers[i].Rules = rules
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (c *InitializerConfiguration) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *InitializerConfigurationList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}
