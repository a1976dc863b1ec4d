package convergence

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// room is a Deployment's, with what its controller has chosen.
func room(t *testing.T, hash, suffix, uid, ip string) []*unstructured.Unstructured {
	t.Helper()
	text := strings.NewReplacer("HASH", hash, "SUFFIX", suffix, "UID", uid, "ADDRESS", ip).Replace(`
- kind: Deployment
  metadata: {name: web, uid: deployment-UID}
- kind: ReplicaSet
  metadata:
    name: web-HASH
    uid: set-UID
    labels: {pod-template-hash: HASH}
    ownerReferences: [{kind: Deployment, name: web, uid: deployment-UID}]
  spec: {template: {metadata: {labels: {pod-template-hash: HASH}}, spec: {containers: [{image: "nginx:1"}]}}}
- kind: Pod
  metadata:
    name: web-HASH-SUFFIX
    uid: pod-UID
    labels: {pod-template-hash: HASH}
    creationTimestamp: 2026-01-02T03:04:UIDZ
    ownerReferences: [{kind: ReplicaSet, name: web-HASH, uid: set-UID}]
  status: {podIP: ADDRESS}
- kind: EndpointSlice
  metadata: {name: web-SUFFIX, uid: slice-UID, labels: {kubernetes.io/service-name: web}}
  endpoints: [{addresses: [ADDRESS], targetRef: {kind: Pod, name: web-HASH-SUFFIX, uid: pod-UID}}]
`)
	var list []map[string]any
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	out := make([]*unstructured.Unstructured, len(list))
	for i := range list {
		out[i] = &unstructured.Unstructured{Object: list[i]}
	}
	return out
}

// TestNames: what is chosen at random is the same afterwards, everywhere it
// stands, and nothing else is.
func TestNames(t *testing.T) {
	text := func(objects []*unstructured.Unstructured) string {
		n := namesOf(objects)
		var out strings.Builder
		for _, u := range objects {
			out.WriteString(compact(n.value(u.Object)))
		}
		return out.String() + n.text("Created pod: "+objects[2].GetName())
	}
	one := text(room(t, "5d4f8c7b9", "abcde", "11", "10.100.100.101"))
	other := text(room(t, "77b9c", "00001", "22", "10.100.100.111"))
	if one != other {
		t.Errorf("one room has the text\n%s\nthe other\n%s\nwant the same", one, other)
	}
	for _, want := range []string{
		`"name":"web-{nginx:1}-POD"`, `"uid":"uid(Pod/web-{nginx:1}-POD)"`, `"pod-template-hash":"{nginx:1}"`, `"name":"web-SLICE"`,
		`"addresses":["{ip of web-{nginx:1}-POD}"]`, `"creationTimestamp":"{time}"`, `Created pod: web-{nginx:1}-POD`,
	} {
		if !strings.Contains(one, want) {
			t.Errorf("no %s in\n%s", want, one)
		}
	}
	changed := room(t, "77b9c", "00001", "22", "10.100.100.111")
	changed[3].Object["endpoints"].([]any)[0].(map[string]any)["addresses"] = []any{"10.100.100.112"}
	if text(changed) == one {
		t.Error("an address of nobody's counts as the pod's")
	}
}

// TestHashes: two templates have two names, though they have one image.
func TestHashes(t *testing.T) {
	first, second := room(t, "aaaaa", "1", "11", "")[1], room(t, "bbbbb", "2", "22", "")[1]
	if err := unstructured.SetNestedField(second.Object, "yes", "spec", "template", "metadata", "annotations", "other"); err != nil {
		t.Fatal(err)
	}
	n := namesOf([]*unstructured.Unstructured{first, second})
	if got := n.text("aaaaa bbbbb"); got != "{nginx:1} {nginx:1#2}" {
		t.Error(got)
	}
}

// TestDiff checks that Diff reports different objects, and objects that only one side has.
func TestDiff(t *testing.T) {
	reference := Snapshot{"pods a": {"phase: Running\n"}, "pods b": {"x\n", "x\n"}, "events": {"1 x\n"}}
	if diff := reference.Diff(reference); diff != "" {
		t.Error(diff)
	}
	diff := Snapshot{"pods a": {"phase: Pending\n"}, "pods b": {"x\n"}, "pods c": {"y\n"}}.Diff(reference)
	for _, want := range []string{
		"events: not here, 1 in the reference", "-phase: Running\n+phase: Pending", "pods b (2 in the reference, 1 here)", "pods c: 1 here, not in the reference",
	} {
		if !strings.Contains(diff, want) {
			t.Errorf("no %q in\n%s", want, diff)
		}
	}
}

// TestEventLines: events that say the same are counted together.
func TestEventLines(t *testing.T) {
	event := func(message string, count int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"involvedObject": map[string]any{"kind": "Pod", "name": "a"}, "type": "Normal", "reason": "Made",
			"source": map[string]any{"component": "maker"}, "message": message, "count": count,
		}}
	}
	lines := eventLines(namesOf(nil), []*unstructured.Unstructured{event("one", 1), event("one", 2)})
	if len(lines) != 1 || lines[0] != "3 x Pod a: Normal Made by maker: one\n" {
		t.Errorf("eventLines = %q, want the one line %q", lines, "3 x Pod a: Normal Made by maker: one\n")
	}
}
