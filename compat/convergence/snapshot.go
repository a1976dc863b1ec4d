package convergence

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Snapshot holds the objects of a room as YAML texts by kind and name. A name has
// several texts, sorted, if several objects have the same role.
type Snapshot map[string][]string

// take returns a snapshot of a room.
func take(ctx context.Context, client dynamic.Interface, r *record, room string) (Snapshot, error) {
	n := namesOf(r.history(room))
	s := Snapshot{}
	for _, kind := range kinds {
		list, err := client.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var inside []*unstructured.Unstructured
		for i := range list.Items {
			if u := &list.Items[i]; roomOf(u) == room {
				inside = append(inside, u)
			}
		}
		if kind.Resource == "events" {
			if lines := eventLines(n, inside); len(lines) > 0 {
				s["events"] = lines
			}
			continue
		}
		for _, u := range inside {
			plain(u.Object)
			object := n.value(u.Object).(map[string]any)
			text, err := yaml.Marshal(sorted(object))
			if err != nil {
				return nil, err
			}
			key := fmt.Sprintf("%s %s", kind.Resource, n.text(u.GetName()))
			s[key] = append(s[key], string(text))
		}
	}
	for _, texts := range s {
		slices.Sort(texts)
	}
	return s, nil
}

// plain removes the fields that may differ between sides in the same state.
func plain(object map[string]any) {
	meta := object["metadata"].(map[string]any)
	delete(meta, "resourceVersion")
	// It names the programs that wrote the object. Snapshots compare the values of the
	// fields instead.
	delete(meta, "managedFields")
	if object["kind"] == "ReplicaSet" {
		// The generation counts the writes of the controller that resizes the ReplicaSet.
		// Compare only whether the status is of the current generation.
		have, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
		observed, ok, _ := unstructured.NestedInt64(object, "status", "observedGeneration")
		meta["generation"] = "{generation}"
		if ok && have == observed {
			object["status"].(map[string]any)["observedGeneration"] = "{generation}"
		}
	}
	if object["kind"] == "Secret" && object["type"] == "kubernetes.io/service-account-token" {
		if data, ok := object["data"].(map[string]any); ok && data["token"] != nil {
			data["token"] = "{token}"
		}
	}
}

// unordered are the lists whose order means nothing.
var unordered = map[string]bool{
	"conditions": true, "endpoints": true, "addresses": true, "notReadyAddresses": true, "subsets": true, "ports": true,
	"ownerReferences": true, "finalizers": true,
}

// sorted brings lists whose order means nothing into an order.
func sorted(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = sorted(v[i])
		}
	case map[string]any:
		for key, value := range v {
			v[key] = sorted(value)
			if list, ok := value.([]any); ok && unordered[key] {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(compact(a), compact(b)) })
			}
		}
	}
	return v
}

func compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // it came as JSON
	}
	return string(data)
}

// timing holds the reasons of events whose number depends on timing alone: a failed attempt that is
// repeated because a cache was too old, and kube-apiserver's repair of the address of a Service that
// was created since the repair began.
var timing = []string{"FailedToCreateEndpoint", "FailedToUpdateEndpoint", "FailedToUpdateEndpointSlices", "ClusterIPNotAllocated"}

// eventLines returns the events of a room but those in timing, with their numbers.
func eventLines(n names, events []*unstructured.Unstructured) []string {
	counts := map[string]int64{}
	for _, e := range events {
		field := func(path ...string) string {
			value, _, _ := unstructured.NestedString(e.Object, path...)
			return n.text(value)
		}
		if slices.Contains(timing, field("reason")) {
			continue
		}
		line := fmt.Sprintf("%s %s: %s %s by %s: %s", field("involvedObject", "kind"), field("involvedObject", "name"),
			field("type"), field("reason"), field("source", "component"), field("message"))
		count, ok, _ := unstructured.NestedInt64(e.Object, "count")
		if !ok || repeats(e) {
			count = 1
		}
		counts[line] += count
	}
	lines := []string{}
	for line, count := range counts {
		lines = append(lines, fmt.Sprintf("%d x %s\n", count, line))
	}
	return lines
}

// Diff says where s is not as the reference, or nothing.
func (s Snapshot) Diff(reference Snapshot) string {
	keys := map[string]bool{}
	for key := range s {
		keys[key] = true
	}
	for key := range reference {
		keys[key] = true
	}
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		have, want := strings.Join(s[key], "---\n"), strings.Join(reference[key], "---\n")
		switch {
		case have == want:
			continue
		case len(s[key]) == 0:
			fmt.Fprintf(&out, "%s: not here, %d in the reference\n", key, len(reference[key]))
			if key == "events" {
				out.WriteString(want)
			}
			continue
		case len(reference[key]) == 0:
			fmt.Fprintf(&out, "%s: %d here, not in the reference\n", key, len(s[key]))
			continue
		}
		text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
			A: difflib.SplitLines(want), B: difflib.SplitLines(have), FromFile: "reference", ToFile: "here", Context: 2,
		})
		if err != nil {
			panic(err) // it writes to memory
		}
		fmt.Fprintf(&out, "%s (%d in the reference, %d here)\n%s", key, len(reference[key]), len(s[key]), text)
	}
	return out.String()
}
