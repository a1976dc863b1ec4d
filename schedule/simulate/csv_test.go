package simulate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule/simulate"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// TestReadCSV reads all columns.
func TestReadCSV(t *testing.T) {
	const text = `# a comment
arrival, duration,cpu,memory,count,priority,name,namespace,labels,selector,grace,nvidia.com/gpu,ephemeral-storage
0.5,60,500m,1Gi,2,7,web,prod,app=web;tier=front,disk=ssd,5,1,10G
1e2,,,,,,,,,,,,
`
	w, err := simulate.ReadCSV("trace.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, a := range w.Arrivals {
		spec := a.Pod.Spec
		have = append(have, fmt.Sprint(a.At, " ", a.Duration, " ", a.Pod.Namespace, "/", a.Pod.Name, " ", a.Pod.Labels, " ", spec.NodeSelector, " ", a.Recreate))
		for _, name := range []string{"cpu", "memory", "nvidia.com/gpu", "ephemeral-storage"} {
			for key, q := range spec.Containers[0].Resources.Requests {
				if string(key) == name {
					have = append(have, name+"="+q.String())
				}
			}
		}
	}
	if spec := w.Arrivals[0].Pod.Spec; *spec.Priority != 7 || *spec.TerminationGracePeriodSeconds != 5 {
		t.Errorf("priority %d, grace %d", *spec.Priority, *spec.TerminationGracePeriodSeconds)
	}
	amounts := "\ncpu=500m\nmemory=1Gi\nnvidia.com/gpu=1\nephemeral-storage=10G\n"
	want := "500ms 1m0s prod/web-0 map[app:web tier:front] map[disk:ssd] true" + amounts +
		"500ms 1m0s prod/web-1 map[app:web tier:front] map[disk:ssd] true" + amounts +
		"1m40s 0s default/row-4 map[] map[] true"
	if got := strings.Join(have, "\n"); got != want {
		t.Errorf("have\n%s\nwant\n%s", got, want)
	}
}

// TestReadCSVErrors checks that errors name the file, the line and the place in it.
func TestReadCSVErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "t.csv: there is no line with the names of the columns",
		"cpu\n1\n":                    "t.csv:1: there is no column arrival",
		"arrival,arrival\n":           "t.csv:1:9: column arrival: it is there twice",
		"arrival,cpu\n1,2\n2,x\n":     `t.csv:3:3: column cpu: "x" is not a quantity`,
		"arrival,cpu\n1,-2\n":         `t.csv:2:3: column cpu: "-2" is negative`,
		"arrival,cpu\n1,1e-9999999\n": `t.csv:2:3: column cpu: "1e-9999999" is not a quantity`,
		"arrival,memory\n1,1GB\n":     `t.csv:2:3: column memory: "1GB" is not a quantity`,
		"arrival\n-1\n":               `t.csv:2:1: column arrival: "-1" seconds are not between 0 and 100 years`,
		"arrival\nNaN\n":              `t.csv:2:1: column arrival: "NaN" is not a number of seconds`,
		"arrival\n1e300\n":            `t.csv:2:1: column arrival: "1e300" seconds are not between 0 and 100 years`,
		"arrival\n\"\"\n":             `t.csv:2:1: column arrival: "" is not a number of seconds`,
		"arrival,duration\n1,-5\n":    `t.csv:2:3: column duration: "-5" seconds are not between 0 and 100 years`,
		"arrival,count\n1,0\n":        `t.csv:2:3: column count: "0" is not a number between 1 and 2000000`,
		"arrival,count\n1,99999999999999999999\n":  `t.csv:2:3: column count: "99999999999999999999" is not a number between 1 and 2000000`,
		"arrival,priority\n1,3000000000\n":         `t.csv:2:3: column priority: "3000000000" is not a number of 32 bits`,
		"arrival,labels\n1,app\n":                  `t.csv:2:3: column labels: "app" is not a name and a value with = between them`,
		"arrival,labels\n1,a=1;a=2\n":              `t.csv:2:3: column labels: "a" is there twice`,
		"arrival,name\n1,web\n2,db\n3,web\n":       "t.csv:4: line 2 has a pod default/web too",
		"arrival,name,count\n1,web,2\n2,web-1,1\n": "t.csv:3: line 2 has a pod default/web-1 too",
		"arrival,cpu\n1\n":                         "t.csv:2:1: wrong number of fields",
		"arrival\n\"1\n2\n":                        `t.csv:3:3: extraneous or missing " in quoted-field`,
	} {
		_, err := simulate.ReadCSV("t.csv", strings.NewReader(text))
		if err == nil || err.Error() != want {
			t.Errorf("%q: have %v, want %s", text, err, want)
		}
	}
	_, err := simulate.ReadCSV("t.csv", strings.NewReader("arrival,colour\n1,red\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "t.csv:1:9: column colour: no such column; there are arrival, count, cpu, duration,") {
		t.Error(err)
	}
}

// TestReadCSVMany checks that the bad line of very many is named, and that a trace cannot have too many pods.
func TestReadCSVMany(t *testing.T) {
	const lines = 10_000
	text := "arrival,cpu\n" + strings.Repeat("1,1\n", lines) + "1,one\n"
	if _, err := simulate.ReadCSV("t.csv", strings.NewReader(text)); err == nil || err.Error() != fmt.Sprintf(`t.csv:%d:3: column cpu: "one" is not a quantity`, lines+2) {
		t.Error(err)
	}
	text = "arrival,count\n1,1\n" + "1,2000000\n"
	if _, err := simulate.ReadCSV("t.csv", strings.NewReader(text)); err == nil || err.Error() != "t.csv:3: the trace has more than 2000000 pods" {
		t.Error(err)
	}
}

// TestGenerate checks that a shape makes one trace, that ReadCSV reads what WriteCSV writes of it, and what
// Generate says of sizes and lifetimes.
func TestGenerate(t *testing.T) {
	shape := simulate.Shape{Pods: 1000, Seed: 3}
	list := simulate.Generate(shape)
	if !apiequality.Semantic.DeepEqual(list, simulate.Generate(shape)) {
		t.Error("a shape makes two traces")
	}
	shape.Seed++
	if apiequality.Semantic.DeepEqual(list, simulate.Generate(shape)) {
		t.Error("two seeds make one trace")
	}
	var text bytes.Buffer
	if err := simulate.WriteCSV(&text, list); err != nil {
		t.Fatal(err)
	}
	w, err := simulate.ReadCSV("t.csv", &text)
	if err != nil {
		t.Fatal(err)
	}
	if !apiequality.Semantic.DeepEqual(w.Arrivals, list) {
		t.Error("a trace is read as something else than was written")
	}
	small, short, long := 0, 0, 0
	for _, a := range list {
		if a.Pod.Spec.Containers[0].Resources.Requests.Cpu().Value() <= 2 {
			small++
		}
		switch {
		case a.Duration < 24*time.Hour/50:
			short++
		case a.Duration > 24*time.Hour:
			long++
		}
	}
	if len(list) != 1000 || small < 700 || small > 850 || short < 440 || short > 560 || long < 1 || long > 50 {
		t.Errorf("%d pods, %d small, %d short, %d long", len(list), small, short, long)
	}
}

// FuzzReadCSV checks that a trace is an error or a workload that can be simulated, written and read again.
func FuzzReadCSV(f *testing.F) {
	f.Add("arrival,duration,cpu,memory,count\n0,1,1,1Gi,2\n")
	f.Add("arrival,labels,selector,priority,name,namespace,grace,x/y\n0,a=b,c=d,1,n,m,3,4\n")
	f.Add("arrival\n\"1\n")
	f.Add("arrival,cpu\n1e300,9E\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := simulate.ReadCSV("f.csv", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.csv:") {
				t.Error(err)
			}
			return
		}
		if len(w.Arrivals) > 100 {
			return
		}
		w.Nodes = simulate.Uniform(2, "4", "8Gi")
		if _, err := simulate.Run(t.Context(), w, simulate.Policy{Preempt: true}); err != nil {
			t.Fatal(err)
		}
		var first, second bytes.Buffer
		if err := simulate.WriteCSV(&first, w.Arrivals); err != nil {
			t.Fatal(err)
		}
		again, err := simulate.ReadCSV("g.csv", strings.NewReader(first.String()))
		if err != nil {
			t.Fatalf("ReadCSV() of what WriteCSV wrote: %v:\n%s", err, first.String())
		}
		if err := simulate.WriteCSV(&second, again.Arrivals); err != nil || first.String() != second.String() {
			t.Errorf("WriteCSV() of what was read back: %v, writes\n%s\nwant\n%s", err, second.String(), first.String())
		}
	})
}
