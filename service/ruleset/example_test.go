package ruleset_test

import (
	"fmt"
	"net/netip"

	"github.com/planekit/planekit/service/ruleset"
)

// A table whose change is computed before anything is written.
func Example() {
	model := ruleset.NewModel()
	block := func(addrs ...string) ruleset.Fragment {
		f := ruleset.Fragment{
			Sets: map[string]ruleset.Set{"blocked": {Family: ruleset.IPv4, Fields: []ruleset.Field{ruleset.SourceAddr}}},
			Chains: map[string]ruleset.Chain{"input": {
				Hook: &ruleset.Hook{Point: "input"},
				Rules: []ruleset.Rule{ruleset.NewRule("", ruleset.OfFamily{Family: ruleset.IPv4},
					ruleset.In{Family: ruleset.IPv4, Fields: []ruleset.Field{ruleset.SourceAddr}, Set: "blocked"}, ruleset.Drop{})},
			}},
			Elements: map[ruleset.Place]ruleset.Verdict{},
		}
		for _, a := range addrs {
			f.Elements[ruleset.Place{Set: "blocked", Key: ruleset.KeyOf(netip.MustParseAddr(a))}] = ""
		}
		return f
	}
	var first, second ruleset.Change
	model.Put("me", "", block("192.0.2.1"), &first)
	model.Put("me", "", block("192.0.2.1", "192.0.2.2"), &second)
	fmt.Println(first.Size(), second.Size())
	fmt.Println(model.Table())
	// Output:
	// 3 1
	// chain input: {Point:input Translates:false Priority:0}
	// 	meta nfproto ipv4 ip saddr @blocked drop
	// element blocked: 192.0.2.1
	// element blocked: 192.0.2.2
	// set blocked {0 4 [1]}
}
