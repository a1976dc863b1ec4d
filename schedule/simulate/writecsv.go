package simulate

import (
	"cmp"
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// WriteCSV writes pods as ReadCSV reads them, one a line: when they arrive, how long they run, what they
// request, their names, labels, priorities, node selectors and grace periods. What else there is of a pod is
// left out.
func WriteCSV(w io.Writer, arrivals []Arrival) error {
	extended := map[corev1.ResourceName]bool{}
	requests := make([]schedule.Resources, len(arrivals))
	for i := range arrivals {
		requests[i] = schedule.NewPodInfo(arrivals[i].Pod).Requests
		for name := range requests[i].Extended {
			extended[name] = true
		}
	}
	header := []string{"arrival", "duration", "cpu", "memory", string(corev1.ResourceEphemeralStorage), "priority", "namespace", "name", "labels", "selector", "grace"}
	more := slices.Sorted(maps.Keys(extended))
	for _, name := range more {
		header = append(header, string(name))
	}
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	for i := range arrivals {
		a, r := &arrivals[i], &requests[i]
		spec := &a.Pod.Spec
		row := []string{
			formatSeconds(a.At), formatSeconds(a.Duration),
			resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI).String(), formatBytes(r.Memory), formatBytes(r.EphemeralStorage),
			formatNumber(spec.Priority), cmp.Or(a.Pod.Namespace, "default"), a.Pod.Name, formatLabels(a.Pod.Labels), formatLabels(spec.NodeSelector),
			formatNumber(spec.TerminationGracePeriodSeconds),
		}
		for _, name := range more {
			row = append(row, strconv.FormatInt(r.Extended[name], 10))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func formatSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// formatBytes formats a number of bytes; 0 is empty.
func formatBytes(n int64) string {
	if n == 0 {
		return ""
	}
	return resource.NewQuantity(n, resource.BinarySI).String()
}

// formatNumber formats a number that may be missing.
func formatNumber[T int32 | int64](n *T) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

func formatLabels(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+labels[name])
	}
	return strings.Join(list, ";")
}
