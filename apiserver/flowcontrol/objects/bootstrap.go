package objects

import (
	"github.com/planekit/planekit/apiserver/flowcontrol"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Set is a set of objects.
type Set struct {
	Levels  []*flowcontrolv1.PriorityLevelConfiguration
	Schemas []*flowcontrolv1.FlowSchema
}

// Mandatory returns the objects that every cluster has. They belong to the caller.
func Mandatory() Set {
	config := flowcontrol.Mandatory(1)
	return setOf(&config, func(string) bool { return true })
}

// Suggested returns the objects that a cluster begins with beside the mandatory
// ones. They belong to the caller.
func Suggested() Set {
	config := flowcontrol.Default(1)
	return setOf(&config, func(name string) bool { return name != flowcontrol.ExemptName && name != flowcontrol.CatchAllName })
}

func setOf(config *flowcontrol.Config, wanted func(name string) bool) Set {
	var out Set
	for i := range config.Levels {
		if l := &config.Levels[i]; wanted(l.Name) {
			out.Levels = append(out.Levels, levelObject(l))
		}
	}
	for i := range config.Schemas {
		if s := &config.Schemas[i]; wanted(s.Name) {
			out.Schemas = append(out.Schemas, schemaObject(s))
		}
	}
	return out
}

// kept is the metadata of an object that a Keeper restores.
func kept(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}
