// Command actor runs in the containers of the kubelet's tests. Without arguments it waits for TERM.
// "fail" writes a termination message and exits with 7. "tell" waits like the first, but writes its
// view of the environment into its termination message.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	fmt.Println("hello from the actor")
	switch strings.Join(os.Args[1:], " ") {
	case "fail":
		say("it went wrong")
		os.Exit(7)
	case "tell":
		conf, err := os.ReadFile("/etc/conf/a.conf")
		if err != nil {
			say(err.Error())
			os.Exit(1)
		}
		if err := os.WriteFile("/scratch/file", conf, 0o600); err != nil {
			say(err.Error())
			os.Exit(1)
		}
		say(fmt.Sprintf("name=%s conf=%s", os.Getenv("NAME"), conf))
	}
	<-stop
}

func say(words string) {
	if err := os.WriteFile("/dev/termination-log", []byte(words), 0o600); err != nil {
		fmt.Println(err)
	}
}
