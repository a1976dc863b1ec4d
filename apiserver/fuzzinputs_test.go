package apiserver

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzQuery: the options of every verb are read, or refused as the client's
// fault, and what a list or watch is let pass with agrees with itself.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{
		"", "limit=1&continue=x", "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1", "resourceVersionMatch=Exact&resourceVersion=0",
		"dryRun=All&fieldManager=%ff&fieldValidation=Strict&force=true", "gracePeriodSeconds=-1&propagationPolicy=Orphan&orphanDependents=x", "timeoutSeconds=99999999999999999999", "%zz;&=",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, text string) {
		query, _ := url.ParseQuery(text) // what can be read of it, as net/http does
		list := &metav1.ListOptions{}
		for _, into := range []any{
			&metav1.GetOptions{}, list, &metav1.CreateOptions{}, &metav1.UpdateOptions{}, &metav1.PatchOptions{}, &metav1.DeleteOptions{},
		} {
			if err := requestline.Options(query, into); err != nil {
				if code := toStatus(err).Code; code != http.StatusBadRequest && code != http.StatusUnprocessableEntity {
					t.Errorf("%T of %q: %d %v", into, text, code, err)
				}
				continue
			}
			if into == any(list) && list.ResourceVersionMatch != "" && (list.Continue != "" || list.ResourceVersion == "" && !list.Watch) {
				t.Errorf("%q is let pass", text)
			}
		}
		if !utf8.ValidString(query.Get("fieldManager")) && requestline.Options(query, &metav1.PatchOptions{}) == nil {
			t.Errorf("%q is let pass", text)
		}
	})
}

// FuzzRevision: a resourceVersion that is taken is a number as the server writes
// it, but for zeros in front.
func FuzzRevision(f *testing.F) {
	for _, s := range []string{"", "0", "1", "-1", "+1", " 1", "1.0", "0x1", "1_000", "9223372036854775807", "9223372036854775808", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		revision, err := parseRevision(text)
		switch {
		case err != nil && toStatus(err).Code != http.StatusBadRequest:
			t.Errorf("parseRevision(%q) = %v, want the code 400", text, err)
		case err == nil && (revision < 0 || formatRevision(revision) != strings.TrimLeft(text, "0")):
			t.Errorf("%q is %d", text, revision)
		}
	})
}

// FuzzGenerateName: a generated name begins with its prefix, or as much of it as
// there is room for, and is still text.
func FuzzGenerateName(f *testing.F) {
	for _, prefix := range []string{"web-", "", strings.Repeat("a", 300), strings.Repeat("é", 29) + "x", strings.Repeat("é", 30), "\xff"} {
		f.Add(prefix)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		name := new(namer).generateName(nil, prefix)
		random := len(name) - generatedSuffix
		switch {
		case random < 0 || len(name) > generatedLength || !strings.HasPrefix(prefix, name[:random]):
			t.Errorf("%q gives %q", prefix, name)
		case len(prefix) <= generatedLength-generatedSuffix && name[:random] != prefix:
			t.Errorf("%q is cut to %q", prefix, name)
		}
	})
}

// FuzzStored: a record, whatever is in it, gives an object that can be stored
// again and is the same then, or an error that names the key.
func FuzzStored(f *testing.F) {
	k := fuzzKind(f)
	if err := k.addCache(nil); err == nil {
		f.Fatal("a cache without a feed")
	}
	f.Add([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","resourceVersion":"7"}}`))
	f.Add([]byte("k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x00\x22\x00"))
	f.Add([]byte("k8s\x00"))
	f.Add([]byte("kind: Pod"))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, value []byte) {
		record := storage.Record{Key: "/registry/core/pods/default/web", Value: bytes.Clone(value), Revision: 12}
		o, err := k.decodeItem(record, nil)
		if !bytes.Equal(record.Value, value) {
			t.Fatalf("%q was changed", value)
		}
		if err != nil {
			if !strings.Contains(err.Error(), string(record.Key)) {
				t.Errorf("decodeItem(%q) = %v, want an error with the key %s", value, err, record.Key)
			}
			return
		}
		if got := accessor(o.Object).GetResourceVersion(); got != "12" {
			t.Errorf("%q has resourceVersion %q", value, got)
		}
		first, err := k.encode(context.Background(), o.Object.DeepCopyObject())
		if err != nil {
			t.Fatalf("%q cannot be stored: %v", value, err)
		}
		again, err := k.decodeItem(storage.Record{Key: record.Key, Value: first, Revision: 12}, nil)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", value, first, err)
		}
		if second, err := k.encode(context.Background(), again.Object.DeepCopyObject()); err != nil || !bytes.Equal(first, second) {
			t.Errorf("%q is stored as %q, then as %q (%v)", value, first, second, err)
		}
	})
}

// FuzzUserAgent: the name that a client's changes are recorded under is text of
// bounded length.
func FuzzUserAgent(f *testing.F) {
	for _, agent := range []string{"kubectl/v1.36.3 (linux/amd64)", "", "/", "\xff\xfe", strings.Repeat("x", 500), "a\x00b/c", "日本/1"} {
		f.Add(agent)
	}
	f.Fuzz(func(t *testing.T, agent string) {
		q := &request{r: &http.Request{Header: http.Header{"User-Agent": {agent}}}}
		name := q.manager("")
		if !utf8.ValidString(name) || len(name) > 128 {
			t.Errorf("%q is recorded as %q", agent, name)
		}
	})
}
