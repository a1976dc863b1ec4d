package promtext

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
)

func parse(text string) ([]Sample, error) {
	var all []Sample
	err := Parse(strings.NewReader(text), 1<<20, func(s Sample) error {
		all = append(all, s)
		return nil
	})
	return all, err
}

func TestParse(t *testing.T) {
	got, err := parse("# HELP a What.\n# TYPE a counter\n\na 1\n" +
		"b_total{pod=\"web\",namespace=\"a\\\\b\\\"c\\nd\",} 1.5e+06 1800000000123\n" +
		"\tc:d { x = \"{}, # é\" } -Inf  -5 \ne{} +Inf\n")
	want := []Sample{
		{Name: "a", Value: 1},
		{Name: "b_total", Labels: map[string]string{"pod": "web", "namespace": "a\\b\"c\nd"}, Value: 1.5e6, Time: time.UnixMilli(1_800_000_000_123)},
		{Name: "c:d", Labels: map[string]string{"x": "{}, # é"}, Value: math.Inf(-1), Time: time.UnixMilli(-5)},
		{Name: "e", Labels: map[string]string{}, Value: math.Inf(1)},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parse() = %+v, %v, want %+v", got, err, want)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a 1\nb\n":                          "line 2 of the metrics: b: want a value",
		"a 1":                               "line 1 of the metrics is cut off",
		"a one\n":                           `a: the value "one" is not a number`,
		"a 0x1p4\n":                         `is not a number`,
		"a 1_0\n":                           `is not a number`,
		"a 1 2.5\n":                         `the time "2.5" is not a number of milliseconds`,
		"a 1 2 3\n":                         "want a value and perhaps a time",
		"a-b 1\n":                           `"-b 1" follows the name`,
		"9 1\n":                             `cannot begin with "9 1"`,
		"a{b=\"1\"\n":                       `label b: "" follows the value`,
		"a{b=\"1\" c=\"2\"} 1\n":            "follows the value",
		"a{b=\"1\n":                         "label b: the value has no end",
		"a{b=\"1\\\n":                       "label b: the value has no end",
		"a{b=\"\\t\"} 1\n":                  "invalid escape",
		"a{b=1} 1\n":                        `label b: want ="`,
		"a{b=\"1\",b=\"2\"} 1\n":            "label b appears twice",
		"a{,} 1\n":                          `a label cannot begin with ",} 1"`,
		"a{b:c=\"1\"} 1\n":                  `label b: want ="`,
		"a{b=\"\xff\"} 1\n":                 "invalid UTF-8",
		"<html>\n":                          `cannot begin with "<html>"`,
		strings.Repeat("a", 20000):          "line 1 of the metrics is longer than 16384 bytes",
		"# " + strings.Repeat("\n#", 1<<20): "the metrics are longer than 1048576 bytes",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	broken := errors.New("broken")
	for name, err := range map[string]error{
		"add":    Parse(strings.NewReader("a 1\n"), 100, func(Sample) error { return broken }),
		"reader": Parse(io.MultiReader(strings.NewReader("a 1\n"), failing{broken}), 100, func(Sample) error { return nil }),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("Parse() with a broken %s = %v, want %v", name, err, broken)
		}
	}
	if err := Parse(strings.NewReader("a 1\n"), 4, func(Sample) error { return nil }); err != nil {
		t.Errorf("exactly as long as allowed: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzParse compares with Prometheus' own parser: what both accept means the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte("# TYPE a counter\na{b=\"c\"} 1 2\na{b=\"d\\\\\"} 0.5\n"))
	f.Add([]byte("a 1\nb{x=\"\\n\\\"\",} NaN -7\n# end\n"))
	f.Add([]byte("a{b=\"c\" ,d=\"e\"}1\n\t \nb\t+Inf\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		have := map[string]int{}
		samples := 0
		err := Parse(bytes.NewReader(text), 1<<16, func(s Sample) error {
			samples++
			key := fmt.Sprint(s.Name, s.Labels, s.Value+0) // -0 is 0
			if !s.Time.IsZero() {
				key += fmt.Sprint(s.Time.UnixMilli())
			}
			have[key]++
			return nil
		})
		if samples > len(text) {
			t.Fatalf("%d samples in %d bytes", samples, len(text))
		}
		if err != nil {
			return // what is refused here makes their parser panic: {}0 after a comment
		}
		var parser expfmt.TextParser
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			return
		}
		for name, family := range families {
			for _, m := range family.Metric {
				if m.Summary != nil || m.Histogram != nil {
					continue // several samples each
				}
				labels := map[string]string(nil)
				for _, l := range m.Label {
					if labels == nil {
						labels = map[string]string{}
					}
					labels[l.GetName()] = l.GetValue()
				}
				value := m.GetUntyped().GetValue() + m.GetCounter().GetValue() + m.GetGauge().GetValue()
				key := fmt.Sprint(name, labels, value)
				if m.TimestampMs != nil {
					key += fmt.Sprint(m.GetTimestampMs())
				}
				if have[key] == 0 {
					t.Errorf("Prometheus reads %q, this %v", key, have)
				}
			}
		}
	})
}
