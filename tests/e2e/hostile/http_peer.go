// A health server of Go's net/http, to hold signpost's against. Arguments: ADDRESS:PORT.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"healthy":true}`)
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
