package kubelets

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// identities are the fields of a status that differ between two runs of one kubelet.
var identities = map[string]bool{
	"startTime": true, "lastTransitionTime": true, "lastProbeTime": true, "startedAt": true, "finishedAt": true,
	"containerID": true, "imageID": true, "hostIP": true, "hostIPs": true, "podIP": true, "podIPs": true,
}

// volatile are the parts of messages that differ between two runs of one kubelet.
var volatile = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`[0-9a-f]{64}`), "{id}"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "{uid}"},
	{regexp.MustCompile(`\b[0-9.]+(ms|s|m[0-9.]+s)\b`), "{time}"},
	{regexp.MustCompile(`\bused: [0-9]+`), "used: {others}"},
	{regexp.MustCompile(`Image size: [0-9]+`), "Image size: {bytes}"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2} `), ""},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "{registry}"},
}

func steady(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// statusText returns the status of a pod as YAML without what differs between two runs.
func statusText(pod *corev1.Pod) string {
	slices.SortFunc(pod.Status.Conditions, func(a, b corev1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	var status map[string]any
	data, err := json.Marshal(pod.Status)
	if err == nil {
		err = json.Unmarshal(data, &status)
	}
	if err == nil {
		data, err = yaml.Marshal(without(status))
	}
	if err != nil {
		return err.Error() // differs from any status
	}
	return steady(string(data))
}

// without removes the identities in v, but shows that they are there.
func without(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = without(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if identities[key] && value != nil {
				v[key] = "{" + key + "}"
			} else {
				v[key] = without(value)
			}
		}
	}
	return v
}

// eventsText returns the events about a pod: which there were, and not how many times.
func eventsText(ctx context.Context, api kubernetes.Interface, pod *corev1.Pod) (string, error) {
	list, err := api.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
	})
	if err != nil {
		return "", err
	}
	var lines []string
	for _, e := range list.Items {
		// A probe may be under way when its container is stopped.
		if e.Source.Component == "kubelet" && !strings.Contains(e.Message, "probe errored") {
			lines = append(lines, steady(fmt.Sprintf("%s %s %s: %s\n", e.InvolvedObject.FieldPath, e.Type, e.Reason, e.Message)))
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), ""), nil
}

// Diff returns the lines by which r differs from the reference, but for the known differences of the
// scenario.
func (r Result) Diff(scenario string, reference Result) string {
	return strings.Join(slices.Concat(differing(scenario, reference.Reached, r.Reached), differing(scenario, reference.Ended, r.Ended)), "")
}

func differing(scenario, reference, text string) (lines []string) {
	diff := difflib.UnifiedDiff{A: difflib.SplitLines(reference), B: difflib.SplitLines(text), FromFile: "reference", ToFile: "this", Context: 2}
	out, err := difflib.GetUnifiedDiffString(diff)
	if err != nil {
		return []string{err.Error()}
	}
	unknown := false
	for i, line := range strings.SplitAfter(out, "\n") {
		lines = append(lines, line)
		changed := i > 1 && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-"))
		unknown = unknown || changed && !known(scenario, strings.TrimSpace(line[1:]))
	}
	if !unknown {
		return nil
	}
	return lines
}
