package kube

import (
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// What kubectl shows in place of an empty cell.
const (
	none    = "<none>"
	unknown = "<unknown>"
)

// object is what every resource here is.
type object interface {
	runtime.Object
	metav1.Object
}

// text is a column of strings that is always shown and depends on the object
// alone.
func text[T runtime.Object](name, description string, value func(T) string) apiserver.Column {
	return apiserver.Column{
		Name:        name,
		Type:        "string",
		Description: description,
		Value:       func(obj runtime.Object) any { return value(obj.(T)) },
		Steady:      true,
	}
}

// number is a column of integers that is always shown.
func number[T runtime.Object](name, description string, value func(T) int64) apiserver.Column {
	return apiserver.Column{
		Name:        name,
		Type:        "integer",
		Description: description,
		Value:       func(obj runtime.Object) any { return value(obj.(T)) },
		Steady:      true,
	}
}

// passing turns a column into one in which time passes.
func passing(c apiserver.Column) apiserver.Column {
	c.Steady = false
	return c
}

// wide turns columns into ones that are shown with -o wide only.
func wide(columns ...apiserver.Column) []apiserver.Column {
	for i := range columns {
		columns[i].Priority = 1
	}
	return columns
}

// age is the column every resource has.
func age[T object]() apiserver.Column {
	return passing(text("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], func(obj T) string {
		return since(obj.GetCreationTimestamp().Time)
	}))
}

// markedName is a column of names in place of the server's own. It marks what an
// annotation, one of these, makes the default.
func markedName[T object](annotations ...string) apiserver.Column {
	c := text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"], func(obj T) string {
		for _, a := range annotations {
			if obj.GetAnnotations()[a] == "true" {
				return obj.GetName() + " (default)"
			}
		}
		return obj.GetName()
	})
	c.Format = "name"
	return c
}

// boolean is a column of booleans. Upstream declares them as text.
func boolean[T runtime.Object](name, description string, value func(T) bool) apiserver.Column {
	c := text(name, description, func(T) string { return "" })
	c.Value = func(obj runtime.Object) any { return value(obj.(T)) }
	return c
}

// since says how long ago t was, as kubectl does: "5d", "3h12m".
func since(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(time.Since(t))
}

// orNone shows nothing as "<none>".
func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// templateColumns are the wide columns of everything that makes pods.
func templateColumns[T runtime.Object](selectorDoc string, template func(T) *corev1.PodTemplateSpec, selector func(T) string) []apiserver.Column {
	list := func(pick func(*corev1.Container) string) func(T) string {
		return func(obj T) string {
			var parts []string
			for i := range template(obj).Spec.Containers {
				parts = append(parts, pick(&template(obj).Spec.Containers[i]))
			}
			return strings.Join(parts, ",")
		}
	}
	return wide(
		text("Containers", "Names of each container in the template.", list(func(c *corev1.Container) string { return c.Name })),
		text("Images", "Images referenced by each container in the template.", list(func(c *corev1.Container) string { return c.Image })),
		text("Selector", selectorDoc, selector),
	)
}

// countColumn is a column of numbers that upstream declares as text.
func countColumn[T runtime.Object, N int | int32 | int64](name, description string, value func(T) N) apiserver.Column {
	c := number(name, description, func(obj T) int64 { return int64(value(obj)) })
	c.Type = "string"
	return c
}
