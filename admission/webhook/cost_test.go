package webhook_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook"
	"github.com/planekit/planekit/internal/used"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func patchedConfigMap() *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Kind: admission.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Object: &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Data: map[string]string{"a": "b"}},
	}
}

// TestCostOfPatches: no patch of a webhook takes more than a second of processor time.
func TestCostOfPatches(t *testing.T) {
	for name, patch := range map[string]string{
		"long path":       `[{"op":"add","path":"/data` + strings.Repeat("/a", 1_000_000) + `","value":1}]`,
		"long paths":      `[{"op":"add","path":"/data/x","value":` + strings.Repeat(`{"a":`, 200) + "{}" + strings.Repeat("}", 200) + "}" + strings.Repeat(`,{"op":"add","path":"/data/x`+strings.Repeat("/a", 100)+`/b","value":1}`, 9000) + "]",
		"front of a list": `[{"op":"add","path":"/data/x","value":[` + strings.Repeat("0,", 1_000_000) + `0]}` + strings.Repeat(`,{"op":"add","path":"/data/x/0","value":1}`, 9900) + "]",
		"deep":            `[{"op":"add","path":"/data/x","value":` + strings.Repeat(`[`, 1_000_000) + strings.Repeat("]", 1_000_000) + "}]",
		"copies":          `[{"op":"add","path":"/data/x","value":[0]}` + strings.Repeat(`,{"op":"copy","from":"/data/x","path":"/data/x/0"}`, 60) + "]",
		"owners":          `[{"op":"add","path":"/metadata/ownerReferences","value":[` + strings.Repeat("{},", 900_000) + `{}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			before := used.Processor()
			_, err := webhook.Patched(context.Background(), patchedConfigMap(), []byte(patch))
			if took := used.Processor() - before; err == nil || took > slowdown*time.Second {
				t.Errorf("%v, after %v of processor time", err, took)
			}
		})
	}
}

// TestPatchEndsWithTheTimeout: what is not applied in time is a failure of the webhook.
func TestPatchEndsWithTheTimeout(t *testing.T) {
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := webhook.Patched(ctx, patchedConfigMap(), []byte(`[{"op":"add","path":"/data/x","value":"y"}]`))
	if err == nil || !strings.Contains(err.Error(), "failed calling webhook") || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Error(err)
	}
}
