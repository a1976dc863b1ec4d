package crd

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/planekit/planekit/apiserver/crd/rules"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// twentyRules is a schema like those of well-known projects, with ten rules of the whole and ten of each item of a
// list.
const twentyRules = `{"type":"object","properties":{"spec":{"type":"object","required":["replicas","items"],
"x-kubernetes-validations":[{"rule":"self.replicas <= 100"},{"rule":"self.replicas >= oldSelf.replicas || self.replicas > 0"},
{"rule":"self.items.all(i, i.port > 0)"},{"rule":"self.items.exists(i, i.name == 'item-0')"},{"rule":"self.items.filter(i, i.weight > 0).size() > 0"},
{"rule":"!has(self.mode) || self.mode in ['auto', 'manual']"},{"rule":"self.labels.all(k, k.size() < 64)"},
{"rule":"self.image.startsWith('registry.example.com/')"},{"rule":"self.image.matches('^[a-z0-9./:-]+$')"},{"rule":"size(self.items) <= 256"}],
"properties":{"replicas":{"type":"integer","minimum":0},"mode":{"type":"string","maxLength":20},"image":{"type":"string","maxLength":200},
"labels":{"type":"object","maxProperties":50,"additionalProperties":{"type":"string","maxLength":64}},
"items":{"type":"array","maxItems":256,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name","port"],
"x-kubernetes-validations":[{"rule":"self.port < 65536"},{"rule":"self.name.size() > 0"},{"rule":"self.weight >= 0 && self.weight <= 1000"},
{"rule":"!has(self.timeout) || duration(self.timeout) > duration('0s')"},{"rule":"self.protocol == 'TCP' || self.protocol == 'UDP'"},
{"rule":"self.protocol != 'UDP' || !has(self.tls)"},{"rule":"self.hosts.all(h, h.contains('.'))"},{"rule":"self.name == oldSelf.name"},
{"rule":"has(self.tls) ? self.tls.size() <= 50 : true"},{"rule":"self.name.lowerAscii() == self.name"}],
"properties":{"name":{"type":"string","maxLength":63},"port":{"type":"integer","minimum":1},"weight":{"type":"integer"},"timeout":{"type":"string","maxLength":20},
"protocol":{"type":"string","enum":["TCP","UDP"]},"tls":{"type":"string","maxLength":100},
"hosts":{"type":"array","maxItems":8,"items":{"type":"string","maxLength":100}}}}}}}}}`

// largeObject returns an object of the schema twentyRules.
func largeObject(replicas int64) map[string]any {
	items, labels := []any{}, map[string]any{}
	for i := range 200 {
		items = append(items, map[string]any{
			"name": fmt.Sprint("item-", i), "port": int64(8000 + i), "weight": int64(i), "timeout": "30s", "protocol": "TCP", "tls": "secret",
			"hosts": []any{fmt.Sprintf("a%d.example.com", i), fmt.Sprintf("b%d.example.com", i)},
		})
	}
	for i := range 40 {
		labels[fmt.Sprint("label", i)] = "value"
	}
	return map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "n"}, "spec": map[string]any{
		"replicas": replicas, "mode": "auto", "image": "registry.example.com/team/web:1.2.3", "labels": labels, "items": items,
	}}
}

// BenchmarkTwentyRules validates a large object, and an update of it, by its schema and by rules in CEL.
func BenchmarkTwentyRules(b *testing.B) {
	compiler, err := rules.New()
	if err != nil {
		b.Fatal(err)
	}
	both := compileBoth(b, []byte(twentyRules))
	mine, theirs := compiler.Compile(both.ours), schemacel.NewValidator(both.theirs, true, celconfig.PerCallLimit)
	before, after := largeObject(3), largeObject(4)
	ctx := b.Context()
	ours := func(obj, old map[string]any) int {
		var wrong int
		if old == nil {
			wrong = len(both.ours.Validate(b.Context(), nil, obj))
		} else {
			wrong = len(both.ours.ValidateUpdate(b.Context(), nil, obj, old, true))
		}
		return wrong + len(mine.Validate(ctx, obj, old, func(string) {}))
	}
	upstream := func(obj, old map[string]any) int {
		if old == nil {
			errs, _ := theirs.Validate(ctx, nil, both.theirs, obj, nil, celconfig.RuntimeCELCostBudget)
			return len(validation.ValidateCustomResource(nil, obj, both.validator)) + len(errs)
		}
		pair := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: both.theirs})
		wrong := len(validation.ValidateCustomResourceUpdate(nil, obj, old, both.validator, validation.WithRatcheting(pair)))
		errs, _ := theirs.Validate(ctx, nil, both.theirs, obj, old, celconfig.RuntimeCELCostBudget, schemacel.WithRatcheting(pair))
		return wrong + len(errs)
	}
	data, err := json.Marshal(after)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		old      map[string]any
		validate func(obj, old map[string]any) int
	}{{"create/planekit", nil, ours}, {"create/upstream", nil, upstream}, {"update/planekit", before, ours}, {"update/upstream", before, upstream}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if wrong := c.validate(after, c.old); wrong > 0 {
					b.Fatalf("%d errors", wrong)
				}
			}
		})
	}
}
