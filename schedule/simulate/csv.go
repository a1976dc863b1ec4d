package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ReadCSV reads a trace of pods. Its first line names the columns, in any order:
//
//	arrival    seconds from the beginning, such as 12.5; the only column that must be there
//	duration   seconds that the pod runs; empty or 0 means that it does not end
//	cpu        cores, as a Kubernetes quantity: 2, 0.5 or 500m
//	memory     bytes, as a quantity: 512Mi
//	count      the number of pods, which are alike; empty means 1
//	priority   empty means 0
//	name       empty means row- and the number of the line; pods of a count get a number behind it
//	namespace  empty means default
//	labels     such as app=web;tier=front
//	selector   labels that the node must have, in the same form
//	grace      seconds that a preempted pod takes to end; empty means 30
//
// The column ephemeral-storage and those with a slash in their names, such as nvidia.com/gpu, are further
// resources that a pod requests. Lines that begin with # are comments. Pods of a trace arrive again when they
// are preempted. name is the name of the file, for errors, which also say the line and the byte in it.
func ReadCSV(name string, r io.Reader) (*Workload, error) {
	c := &csvReader{file: name, csv: csv.NewReader(r), lines: make(map[string]int)}
	c.csv.Comment, c.csv.ReuseRecord = '#', true
	if err := c.header(); err != nil {
		return nil, err
	}
	w := &Workload{}
	for {
		fields, err := c.csv.Read()
		if errors.Is(err, io.EOF) {
			return w, nil
		}
		if err != nil {
			return nil, c.syntax(err)
		}
		if err := c.row(w, fields); err != nil {
			return nil, err
		}
	}
}

// columns has the function that reads a field of each column.
var columns = map[string]func(*csvRow, string) error{
	"arrival":   func(r *csvRow, s string) (err error) { r.at, err = parseSeconds(s); return err },
	"duration":  func(r *csvRow, s string) (err error) { r.duration, err = parseSeconds(s); return err },
	"cpu":       request(corev1.ResourceCPU),
	"memory":    request(corev1.ResourceMemory),
	"count":     (*csvRow).setCount,
	"priority":  (*csvRow).setPriority,
	"name":      (*csvRow).setName,
	"namespace": (*csvRow).setNamespace,
	"labels":    func(r *csvRow, s string) (err error) { r.labels, err = parseLabels(s); return err },
	"selector":  func(r *csvRow, s string) (err error) { r.spec.NodeSelector, err = parseLabels(s); return err },
	"grace":     (*csvRow).setGrace,

	string(corev1.ResourceEphemeralStorage): request(corev1.ResourceEphemeralStorage),
}

// csvReader reads one trace.
type csvReader struct {
	file    string
	csv     *csv.Reader
	names   []string
	columns []func(*csvRow, string) error
	// lines has the line of each row by the key of its pods, without their numbers.
	lines map[string]int
}

// csvRow is one row.
type csvRow struct {
	at, duration    time.Duration
	count           int
	name, namespace string
	labels          map[string]string
	spec            corev1.PodSpec
	requests        corev1.ResourceList
}

// at returns an error about a field of the last record.
func (c *csvReader) at(field int, err error) error {
	line, column := c.csv.FieldPos(field)
	return fmt.Errorf("%s:%d:%d: column %s: %w", c.file, line, column, c.names[field], err)
}

// syntax returns an error of the csv package with the name of the file.
func (c *csvReader) syntax(err error) error {
	if e := (*csv.ParseError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s:%d:%d: %w", c.file, e.Line, e.Column, e.Err)
	}
	return fmt.Errorf("%s: %w", c.file, err)
}

func (c *csvReader) header() error {
	fields, err := c.csv.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: there is no line with the names of the columns", c.file)
	}
	if err != nil {
		return c.syntax(err)
	}
	for _, name := range fields {
		c.names = append(c.names, strings.TrimSpace(name))
	}
	for i, name := range c.names {
		column := columns[name]
		if column == nil && strings.Contains(name, "/") && len(validation.IsQualifiedName(name)) == 0 {
			column = request(corev1.ResourceName(name))
		}
		if column == nil {
			return c.at(i, errors.New("no such column; there are "+strings.Join(slices.Sorted(maps.Keys(columns)), ", ")))
		}
		if slices.Index(c.names, name) != i {
			return c.at(i, errors.New("it is there twice"))
		}
		c.columns = append(c.columns, column)
	}
	if !slices.Contains(c.names, "arrival") {
		return fmt.Errorf("%s:1: there is no column arrival", c.file)
	}
	return nil
}

// row adds the pods of one row to a workload.
func (c *csvReader) row(w *Workload, fields []string) error {
	line, _ := c.csv.FieldPos(0)
	row := csvRow{count: 1, namespace: "default", name: fmt.Sprint("row-", line), requests: corev1.ResourceList{}}
	for i, field := range fields {
		field = strings.TrimSpace(field)
		if field == "" && c.names[i] != "arrival" {
			continue
		}
		if err := c.columns[i](&row, field); err != nil {
			return c.at(i, err)
		}
	}
	if most := MaxPods - len(w.Arrivals); row.count > most {
		return fmt.Errorf("%s:%d: the trace has more than %d pods", c.file, line, MaxPods)
	}
	row.spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: row.requests}}}
	for i := range row.count {
		name := row.name
		if row.count > 1 {
			name = fmt.Sprint(name, "-", i)
		}
		key := row.namespace + "/" + name
		if first, twice := c.lines[key]; twice {
			return fmt.Errorf("%s:%d: line %d has a pod %s too", c.file, line, first, key)
		}
		c.lines[key] = line
		w.Arrivals = append(w.Arrivals, Arrival{At: row.at, Duration: row.duration, Recreate: true, Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: row.namespace, Name: name, Labels: row.labels}, Spec: row.spec,
		}})
	}
	return nil
}

// parseSeconds reads a time in seconds.
func parseSeconds(text string) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) {
		return 0, fmt.Errorf("%.40q is not a number of seconds", text)
	}
	if n < 0 || n > maxTime.Seconds() {
		return 0, fmt.Errorf("%.40q seconds are not between 0 and 100 years", text)
	}
	return time.Duration(math.Round(n * float64(time.Second))), nil
}

// quantity matches the amounts that ReadCSV accepts. Those with long exponents take long to parse.
var quantity = regexp.MustCompile(`^[0-9.]{1,40}([eE]-?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`)

// request returns the function for the column of a resource.
func request(name corev1.ResourceName) func(*csvRow, string) error {
	return func(r *csvRow, text string) error {
		if strings.HasPrefix(text, "-") {
			return fmt.Errorf("%.40q is negative", text)
		}
		if !quantity.MatchString(text) {
			return fmt.Errorf("%.40q is not a quantity", text)
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("%.40q is not a quantity", text)
		}
		r.requests[name] = q
		return nil
	}
}

func (r *csvRow) setCount(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPods {
		return fmt.Errorf("%.40q is not a number between 1 and %d", text, MaxPods)
	}
	r.count = n
	return nil
}

func (r *csvRow) setPriority(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("%.40q is not a number of 32 bits", text)
	}
	r.spec.Priority = new(int32(n))
	return nil
}

func (r *csvRow) setGrace(text string) error {
	d, err := parseSeconds(text)
	if err != nil {
		return err
	}
	r.spec.TerminationGracePeriodSeconds = new(int64(d / time.Second))
	return nil
}

func (r *csvRow) setName(text string) error {
	r.name = text
	return valid(text, validation.IsDNS1123Subdomain(text))
}

func (r *csvRow) setNamespace(text string) error {
	r.namespace = text
	return valid(text, validation.IsDNS1123Label(text))
}

// parseLabels reads labels such as app=web;tier=front.
func parseLabels(text string) (map[string]string, error) {
	labels := make(map[string]string)
	for one := range strings.SplitSeq(text, ";") {
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return nil, fmt.Errorf("%.40q is not a name and a value with = between them", one)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("%.40q is there twice", key)
		}
		if err := errors.Join(valid(key, validation.IsQualifiedName(key)), valid(value, validation.IsValidLabelValue(value))); err != nil {
			return nil, err
		}
		labels[key] = value
	}
	return labels, nil
}

// valid returns the first problem of a text.
func valid(text string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%.40q is invalid: %s", text, problems[0])
}
