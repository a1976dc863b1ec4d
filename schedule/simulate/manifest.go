package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/planekit/planekit/internal/yamljson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

const (
	// maxYAML and maxDepth bound the JSON of one YAML document, in bytes and levels.
	maxYAML  = 64 << 20
	maxDepth = 256
	// maxLists bounds the levels of lists in lists.
	maxLists = 4
)

// ReadManifests reads Kubernetes objects: documents of YAML between lines of ---, or of JSON, also lists of
// objects as kubectl get -o json writes them. A snapshot of a whole cluster is
//
//	kubectl get nodes,pods,namespaces,priorityclasses,poddisruptionbudgets -A -o json
//
// A snapshot should be JSON: a YAML document is limited to 60,000 values.
//
// Nodes, namespaces and disruption budgets become those of the workload. Pods arrive at once and do not end,
// unless their annotations [ArrivalAnnotation] and [DurationAnnotation] say otherwise; pods that have ended, or
// wait for their deletion without a node, are left out. A Deployment, ReplicaSet, StatefulSet or
// ReplicationController becomes as many pods of its template as it has replicas, unless it comes from a cluster
// (it has a UID) or has an owner: its pods are in the snapshot then. Pods of controllers arrive again when they
// are preempted. Objects of other kinds are counted in Ignored.
//
// What a server would add is added: requests that are missing are the limits; priorities are those of the
// priority classes; a node without allocatable amounts has its capacity, room for 110 pods where it does not
// say how many, and its name as hostname.
//
// name is the name of the file, for errors, which also say the line where the document begins.
func ReadManifests(name string, r io.Reader) (*Workload, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m := &manifests{workload: &Workload{Ignored: make(map[string]int)}, classes: systemClasses()}
	for _, d := range documents(text) {
		if err := m.document(d); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, d.line, err)
		}
	}
	if err := m.complete(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m.workload, nil
}

// document is a part of a file.
type document struct {
	line int
	text []byte
}

// documents splits a file at its lines of ---.
func documents(text []byte) []document {
	var list []document
	first, line, begin, end := 1, 0, 0, 0
	for one := range bytes.Lines(text) {
		line++
		if separates(one) {
			list = append(list, document{first, text[begin:end]})
			first, begin = line+1, end+len(one)
		}
		end += len(one)
	}
	return append(list, document{first, text[begin:]})
}

// separates reports whether a line begins a document.
func separates(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// document reads the objects of one document.
func (m *manifests) document(d document) error {
	text := bytes.TrimSpace(d.text)
	if len(text) == 0 {
		return nil
	}
	if text[0] != '{' {
		var err error
		if text, _, err = yamljson.Convert(context.Background(), d.text, yamljson.Limits{Depth: maxDepth, Bytes: maxYAML}, false); err != nil {
			return err
		}
	}
	stream := json.NewDecoder(bytes.NewReader(text))
	for {
		var object json.RawMessage
		if err := stream.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if string(object) == "null" {
			continue // a document of comments
		}
		if bad := hugeNumber(object); bad != nil {
			return fmt.Errorf("a number with an exponent of more than three digits: %.40s", bad)
		}
		if err := m.object(object, metav1.TypeMeta{}, 0); err != nil {
			return err
		}
	}
}

// longExponent matches values such as 1e-99999999, which take seconds and more to read as quantities.
var longExponent = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?[0-9]{4,}$`)

// hugeNumber returns the first number or string in a JSON text that matches longExponent.
func hugeNumber(text []byte) []byte {
	for i := 0; i < len(text); i++ {
		begin := i
		switch {
		case text[i] == '"':
			begin++
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case text[i] == '-' || text[i] >= '0' && text[i] <= '9':
			for i < len(text) && strings.IndexByte("+-.eE0123456789", text[i]) >= 0 {
				i++
			}
		default:
			continue
		}
		value := text[begin:min(i, len(text))]
		if len(value) > 0 && value[0] <= '9' && longExponent.Match(value) {
			return value
		}
	}
	return nil
}

// object reads one object, or a list of objects. implied is its type if it does not say one, as in the lists
// of one type.
func (m *manifests) object(text json.RawMessage, implied metav1.TypeMeta, level int) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := kjson.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Kind == "" {
		head.TypeMeta = implied
	}
	if head.Kind == "" || head.APIVersion == "" {
		return errors.New("an object has no apiVersion or no kind")
	}
	if item, ok := strings.CutSuffix(head.Kind, "List"); ok {
		if level == maxLists {
			return errors.New("lists are in lists too often")
		}
		implied := metav1.TypeMeta{APIVersion: head.APIVersion, Kind: item}
		if item == "" {
			implied = metav1.TypeMeta{}
		}
		for i, one := range head.Items {
			if err := m.object(one, implied, level+1); err != nil {
				return fmt.Errorf("item %d of a %s: %w", i, head.Kind, err)
			}
		}
		return nil
	}
	read := kinds[head.APIVersion+"/"+head.Kind]
	if read == nil {
		m.workload.Ignored[head.Kind]++
		return nil
	}
	if err := read(m, text); err != nil {
		return fmt.Errorf("%s %s: %w", head.Kind, strings.TrimPrefix(head.Metadata.Namespace+"/"+head.Metadata.Name, "/"), err)
	}
	return nil
}
