package critest

import (
	"os"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// line is a line of a log.
type line struct {
	stream, tag, text string
}

// log returns the lines of a log. The format is "time stream tag text"
// (https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md).
func (e *env) log(path string) []line {
	e.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		e.Errorf("%v", err)
	}
	var lines []line
	var last time.Time
	for l := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(l, "\n"), " ", 4)
		if len(fields) != 4 || !strings.HasSuffix(l, "\n") {
			e.Errorf("%s: %q is no line of a log", path, l)
			continue
		}
		stamp, err := time.Parse(time.RFC3339Nano, fields[0])
		if err != nil || stamp.Before(last) {
			e.Errorf("%s: the time of %q is none, or before that of the line before: %v", path, l, err)
		}
		last = stamp
		lines = append(lines, line{fields[1], fields[2], fields[3]})
	}
	return lines
}

// rawLog returns the text of the log of a container; empty if there is none yet.
func (e *env) rawLog(name string) string {
	text, err := os.ReadFile(e.logPath(name))
	if err != nil {
		return ""
	}
	return string(text)
}

func checkLog(e *env) {
	sandbox, of := e.sandbox("a")
	for name, text := range map[string]string{"one": "hello", "two": "first\nsecond", "words": "größer  than\ttabs", "empty": ""} {
		id := e.create(sandbox, of, e.containerConfig(name, "exit", "0", text))
		e.start(id)
		e.exited(id)
		var want []line
		for l := range strings.SplitSeq(text, "\n") {
			want = append(want, line{"stdout", "F", l})
		}
		// The last lines may be written after the exit.
		e.eventually("the log of "+name+" is complete", func() bool { return strings.Count(e.rawLog(name), "\n") >= len(want) })
		got := e.log(e.logPath(name))
		for i, l := range want {
			if len(got) != len(want) || got[i] != l {
				e.Errorf("the log of %s is %q, want %q", name, got, want)
				break
			}
		}
	}
	config := e.containerConfig("none", "exit", "0", "hello")
	config.LogPath = ""
	id := e.create(sandbox, of, config)
	e.start(id)
	e.exited(id)
	if path := e.status(id).GetLogPath(); path != "" {
		e.Errorf("a container without a log has one at %q", path)
	}
}

// checkLongLines: a long line may be several of the log, of which all but the last are partial.
func checkLongLines(e *env) {
	sandbox, of := e.sandbox("a")
	text := strings.Repeat("0123456789", 4000) + "the end of it"
	id := e.create(sandbox, of, e.containerConfig("a", "exit", "0", text))
	e.start(id)
	e.exited(id)
	e.eventually("the log is complete", func() bool { return strings.HasSuffix(e.rawLog("a"), "the end of it"+"\n") })
	got := e.log(e.logPath("a"))
	var joined strings.Builder
	for i, l := range got {
		if last := i == len(got)-1; l.tag == "F" != last || l.tag != "F" && l.tag != "P" {
			e.Errorf("line %d of %d has the tag %s", i, len(got), l.tag)
		}
		joined.WriteString(l.text)
	}
	if joined.String() != text {
		e.Errorf("%d bytes of %d arrived", joined.Len(), len(text))
	}
}

// checkReopenLog: a log that was renamed is kept, and there is a new one.
func checkReopenLog(e *env) {
	_, id := e.running("a", "run")
	path := e.logPath("a")
	if err := os.Rename(path, path+".1"); err != nil {
		e.Fatalf("rename the log: %v", err)
	}
	_, err := e.Runtime.ReopenContainerLog(e.ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	e.succeeds(err, "reopen log")
	info, err := os.Stat(path)
	if err != nil {
		e.Fatalf("after the log was reopened: %v", err)
	}
	if old := e.log(path + ".1"); info.Size() != 0 || len(old) != 1 {
		e.Errorf("the new log has %d bytes, the old one the lines %q", info.Size(), old)
	}
	e.succeeds(e.stop(id, 30), "stop")
	_, err = e.Runtime.ReopenContainerLog(e.ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	e.fails(err, "reopen the log of an exited container")
}
