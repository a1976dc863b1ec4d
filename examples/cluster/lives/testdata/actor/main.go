// Command actor runs in the containers of the test of pod lives. Without arguments it is the process
// of a sandbox: it waits for TERM. "actor ok" succeeds. "actor run" behaves as its flags say.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// exitMissing is the exit code of an actor that lacks a file.
const exitMissing = 66

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) == 1 {
		<-stop
		return
	}
	switch os.Args[1] {
	case "run":
		run(os.Args[2:], stop)
	case "child":
		// It ends only when it is killed.
		for {
			time.Sleep(time.Hour)
		}
	}
}

func run(arguments []string, stop <-chan os.Signal) {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	code := flags.Int("exit", 0, "exit code")
	after := flags.Duration("after", 0, "exit after this time; 0 means never")
	stubborn := flags.Bool("stubborn", false, "ignore TERM")
	child := flags.Bool("child", false, "start a process that ignores TERM")
	serve := flags.Bool("serve", false, "answer on port 8080")
	need := flags.String("need", "", "files that must exist, separated by commas")
	write := flags.String("write", "", "file to write")
	flags.Parse(arguments)
	fmt.Println("hello from the actor")
	for _, file := range strings.FieldsFunc(*need, func(r rune) bool { return r == ',' }) {
		if data, err := os.ReadFile(file); err != nil || len(data) == 0 {
			missing(fmt.Errorf("%s: %d bytes, %v", file, len(data), err))
		}
	}
	if *write != "" {
		if err := os.WriteFile(*write, []byte("written"), 0o600); err != nil {
			missing(err)
		}
	}
	if *child {
		c := exec.Command("/actor", "child")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			missing(err)
		}
	}
	if *serve {
		go http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }))
	}
	var end <-chan time.Time
	if *after > 0 {
		end = time.After(*after)
	}
	for {
		select {
		case <-end:
			os.Exit(*code)
		case <-stop:
			if !*stubborn {
				return
			}
		}
	}
}

// missing says what is missing, and ends.
func missing(err error) {
	fmt.Println(err)
	os.WriteFile("/dev/termination-log", []byte(err.Error()), 0o600)
	os.Exit(exitMissing)
}
