// Generated from docs/openapi.json by `npm run generate`. Do not edit.

export interface paths {
    "/api": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Show the OpenAPI document as a web page */
        get: operations["get_api"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/l/{token}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download a blob by a link */
        get: operations["get_l_token"];
        /**
         * Upload the bytes of a blob by a link
         * @description Safe to retry without a key: the same bytes are stored once.
         */
        put: operations["put_l_token"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/livez": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Check that the process is running */
        get: operations["get_livez"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get metrics in the Prometheus text format */
        get: operations["get_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/problems/{type}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Explain a type of problem */
        get: operations["get_problems_type"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Check that the database accepts writes and the server is not shutting down */
        get: operations["get_readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activity": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the spend of the last hour by minute, and notable events */
        get: operations["get_activity"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List blobs in the order they were created; without `state`, those that can be read */
        get: operations["get_blobs"];
        put?: never;
        /**
         * Upload a blob: raw bytes or a form with a file
         * @description Safe to retry without a key: the same bytes are stored once.
         */
        post: operations["post_blobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/gc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Collect blobs that nothing needs any more
         * @description Safe to retry without a key: repeating it changes nothing more.
         */
        post: operations["post_blobs_gc"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Move the bytes of some blobs to another backend
         * @description Safe to retry without a key: repeating it changes nothing more.
         */
        post: operations["post_blobs_move"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/orphans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Compare the storage backends with the records
         * @description Safe to retry without a key: repeating it changes nothing more.
         */
        post: operations["post_blobs_orphans"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/presign": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sign an upload that goes to the storage backend
         * @description Safe to retry without a key: the same bytes are stored once.
         */
        post: operations["post_blobs_presign"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/uploads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begin a resumable upload (tus)
         * @description Safe to retry without a key: the same bytes are stored once.
         */
        post: operations["post_blobs_uploads"];
        delete?: never;
        /** Tell what resumable uploads support (tus) */
        options: operations["options_blobs_uploads"];
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/uploads/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tell how far a resumable upload has come (tus) */
        get: operations["get_blobs_uploads_id"];
        put?: never;
        post?: never;
        /**
         * Cancel a resumable upload (tus)
         * @description Safe to retry without a key: repeating it changes nothing more.
         */
        delete: operations["delete_blobs_uploads_id"];
        options?: never;
        head?: never;
        /**
         * Continue a resumable upload (tus)
         * @description Safe to retry without a key: the same bytes are stored once.
         */
        patch: operations["patch_blobs_uploads_id"];
        trace?: never;
    };
    "/v1/blobs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Download a blob, or a range of it */
        get: operations["get_blobs_id"];
        put?: never;
        post?: never;
        /** Delete a blob; it can be restored for a while */
        delete: operations["delete_blobs_id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/{id}/commit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Complete a signed upload
         * @description Safe to retry without a key: repeating it changes nothing more.
         */
        post: operations["post_blobs_id_commit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/{id}/link": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Create a link to read a blob */
        post: operations["post_blobs_id_link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/{id}/meta": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get what is known about a blob */
        get: operations["get_blobs_id_meta"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/{id}/references/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Keep a blob for something of the application, by name */
        put: operations["put_blobs_id_references_name"];
        post?: never;
        /** End a reference of the application to a blob */
        delete: operations["delete_blobs_id_references_name"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/blobs/{id}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Restore a deleted blob */
        post: operations["post_blobs_id_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List budgets by scope */
        get: operations["get_budgets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets/{scope}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a budget and its balances */
        get: operations["get_budgets_scope"];
        /** Create or replace a budget */
        put: operations["put_budgets_scope"];
        post?: never;
        /** Remove a budget; its spend stays recorded */
        delete: operations["delete_budgets_scope"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets/{scope}/credits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Credit units back to a scope */
        post: operations["post_budgets_scope_credits"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets/{scope}/freeze": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Freeze a scope: refuse new charges */
        post: operations["post_budgets_scope_freeze"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets/{scope}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List a scope's events, newest first */
        get: operations["get_budgets_scope_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets/{scope}/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the units posted over time */
        get: operations["get_budgets_scope_series"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets/{scope}/spent": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the units posted in a period */
        get: operations["get_budgets_scope_spent"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/budgets/{scope}/unfreeze": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Unfreeze a scope: admit charges again */
        post: operations["post_budgets_scope_unfreeze"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/commands": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Submit charges, redemptions and jobs in one transaction */
        post: operations["post_commands"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/commands/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the result of a command */
        get: operations["get_commands_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/costs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the cost of jobs by day, queue, kind and scope */
        get: operations["get_costs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dead": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List dead jobs */
        get: operations["get_dead"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dead/discard": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Discard dead jobs */
        post: operations["post_dead_discard"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dead/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Group dead jobs by queue, kind and error */
        get: operations["get_dead_groups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dead/move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Move dead jobs to another queue and retry them there */
        post: operations["post_dead_move"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dead/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Retry dead jobs */
        post: operations["post_dead_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Stream events, as server-sent events or over a WebSocket */
        get: operations["get_events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/grants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List grants, without their tokens */
        get: operations["get_grants"];
        put?: never;
        /** Create a grant; the response has its token, which is not shown again */
        post: operations["post_grants"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/grants/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a grant, without its token */
        get: operations["get_grants_id"];
        put?: never;
        post?: never;
        /** Revoke a grant */
        delete: operations["delete_grants_id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/grants/{id}/erase": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Erase the payload of a grant that can no longer be redeemed */
        post: operations["post_grants_id_erase"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/held": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the units held for jobs by queue, kind and unit */
        get: operations["get_held"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/holds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the unsettled holds on a scope, soonest expiry first */
        get: operations["get_holds"];
        put?: never;
        /** Place a hold */
        post: operations["post_holds"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/holds/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a hold */
        get: operations["get_holds_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/holds/{id}/commit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Commit a hold with the actual cost */
        post: operations["post_holds_id_commit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/holds/{id}/extend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Extend a hold's expiry */
        post: operations["post_holds_id_extend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/holds/{id}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List a hold's events, newest first */
        get: operations["get_holds_id_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/holds/{id}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Release a hold */
        post: operations["post_holds_id_release"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List jobs in the order they were enqueued */
        get: operations["get_jobs"];
        put?: never;
        /** Enqueue a job */
        post: operations["post_jobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Enqueue many jobs, in transactions of up to 1000 */
        post: operations["post_jobs_bulk"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel many jobs, by id or by filter */
        post: operations["post_jobs_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Complete many jobs
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_complete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/edit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Change the priority or delay of many waiting jobs, by id or by filter */
        post: operations["post_jobs_edit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/erase": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Erase the payloads and results of many ended jobs, by id or by filter */
        post: operations["post_jobs_erase"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/fail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Report many failed attempts
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_fail"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/heartbeat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Renew the leases of many jobs
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_heartbeat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/lease": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Lease jobs, waiting for them if none are ready
         * @description Safe to retry: if the response is lost, the leases in it expire and the jobs are leased again.
         */
        post: operations["post_jobs_lease"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Report the progress of many jobs and renew their leases
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_progress"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Retry many jobs, by id or by filter */
        post: operations["post_jobs_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/return": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Return many jobs that were not started
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_return"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/snooze": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Postpone many jobs without counting attempts
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_snooze"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a job */
        get: operations["get_jobs_id"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Change the priority or delay of a waiting job */
        patch: operations["patch_jobs_id"];
        trace?: never;
    };
    "/v1/jobs/{id}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the attempts of a job */
        get: operations["get_jobs_id_attempts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel a job */
        post: operations["post_jobs_id_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/complete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Complete a job
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_id_complete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/discard": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Discard a dead job */
        post: operations["post_jobs_id_discard"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/erase": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Erase the payload and the result of an ended job */
        post: operations["post_jobs_id_erase"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List a job's events, newest first */
        get: operations["get_jobs_id_events"];
        put?: never;
        /** Emit an event of the application about a job */
        post: operations["post_jobs_id_events"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/fail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Report a failed attempt
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_id_fail"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/heartbeat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Renew the lease of a job
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_id_heartbeat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Move a job to another queue */
        post: operations["post_jobs_id_move"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Report the progress of a job and renew its lease
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_id_progress"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Retry a dead or cancelled job */
        post: operations["post_jobs_id_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/return": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Return a job that was not started
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_id_return"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{id}/snooze": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Postpone a job without counting an attempt
         * @description Safe to retry without a key: the same report with the same fence gets the same answer.
         */
        post: operations["post_jobs_id_snooze"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/journal": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the events of the journal in commit order */
        get: operations["get_journal"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List API keys, without their secrets; operators also see operator tokens */
        get: operations["get_keys"];
        put?: never;
        /** Create an API key; it is not shown again */
        post: operations["post_keys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an API key, without its secret */
        get: operations["get_keys_id"];
        put?: never;
        post?: never;
        /** Revoke an API key immediately */
        delete: operations["delete_keys_id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys/{id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Rotate an API key; the old one stays valid for the overlap */
        post: operations["post_keys_id_rotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List links, without their addresses */
        get: operations["get_links"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/links/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke a link */
        delete: operations["delete_links_id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/meter/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Charge a caller's quota if it admits the cost */
        post: operations["post_meter_check"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/meter/quota": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the quota of a caller */
        get: operations["get_meter_quota"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/meter/quota/limit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Set the limits of one caller */
        post: operations["post_meter_quota_limit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/namespaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the namespaces that were configured, by name */
        get: operations["get_namespaces"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/namespaces/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the rules of a namespace */
        get: operations["get_namespaces_name"];
        /** Replace the rules of a namespace */
        put: operations["put_namespaces_name"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the OpenAPI document */
        get: operations["get_openapi_json"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/queues": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List queues and their statistics by name */
        get: operations["get_queues"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/queues/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a queue and its statistics */
        get: operations["get_queues_name"];
        /** Create or replace a queue */
        put: operations["put_queues_name"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/queues/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List a queue's changes, newest first */
        get: operations["get_queues_name_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/queues/{name}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Pause a queue: lease no more jobs */
        post: operations["post_queues_name_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/queues/{name}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Resume a queue */
        post: operations["post_queues_name_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List schedules by name */
        get: operations["get_schedules"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a schedule */
        get: operations["get_schedules_name"];
        /** Create or replace a schedule */
        put: operations["put_schedules_name"];
        post?: never;
        /** Remove a schedule; its jobs are kept */
        delete: operations["delete_schedules_name"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{name}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Pause a schedule */
        post: operations["post_schedules_name_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{name}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Resume a schedule; it continues with the next tick from now on */
        post: operations["post_schedules_name_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{name}/run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Enqueue a schedule's job now */
        post: operations["post_schedules_name_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the tenants that have budgets or other scopes, by name */
        get: operations["get_tenants"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tenants/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Check that a tenant has a scope, a queue, a schedule or a token */
        get: operations["get_tenants_name"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Verify that balances match holds and postings */
        get: operations["get_verify"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/whoami": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the caller's name, role, tenant and actions */
        get: operations["get_whoami"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List worker tokens, without their secrets */
        get: operations["get_workers"];
        put?: never;
        /** Create a worker token; it is not shown again */
        post: operations["post_workers"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workers/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get a worker token, without its secret */
        get: operations["get_workers_id"];
        put?: never;
        post?: never;
        /** Revoke a worker token immediately */
        delete: operations["delete_workers_id"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workers/{id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Rotate a worker token; the old one stays valid for the overlap */
        post: operations["post_workers_id_rotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The result of an operation on several jobs. */
        ActedAnswer: {
            /**
             * Format: uint
             * @description The number of jobs that were changed.
             */
            done: number;
            /**
             * Format: uint
             * @description The number of jobs that were selected.
             */
            matched: number;
            /** @description A dry run stopped counting: more jobs match than `matched` says. */
            more?: boolean;
            /** @description The `cursor` of the next request; `null` if no job is left. */
            next?: string | null;
            /**
             * Format: uint
             * @description The number of jobs whose state did not allow the change.
             */
            refused: number;
        };
        /** @description What happened lately in a tenant: the answer of `GET /v1/activity`. */
        ActivityAnswer: {
            /**
             * Format: uint
             * @description The number of minutes in each list of `scopes`.
             */
            minutes: number;
            /** @description The latest events that an operator may have to look at: thresholds, freezes, trips, overruns, late commits. Newest first. */
            notable: components["schemas"]["EventAnswer"][];
            /**
             * @description How often limits have refused charges since then, the latest refusal first, at most 100.
             * @default []
             */
            refusals?: components["schemas"]["RefusalsAnswer"][];
            /** @description The scopes with the largest spend, at most 20. */
            scopes: components["schemas"]["ScopeActivity"][];
            /** @description The first minute of `scopes`. Activity before it is not known. */
            since?: string | null;
            /**
             * @description When this server started. It counts refusals and sees workers from then on; other servers count their own.
             * @default null
             */
            started_at?: string | null;
            /**
             * @description Workers that have asked this server for jobs within the last hour: first those that wait, at most 1,000.
             * @default []
             */
            workers?: components["schemas"]["WorkerSeenAnswer"][];
        };
        /** @description The caller of a request. */
        ActorAnswer: {
            /** @description The id of the caller; missing for `system` and `anonymous`. */
            id?: string | null;
            /** @description `system`, `user`, `job`, `worker`, `agent` or `anonymous`. */
            kind: string;
        };
        /** @description The units spent on one scope of a hold. */
        ActualBody: {
            /**
             * Format: int64
             * @description The units spent.
             */
            amount: number;
            scope: string;
        };
        /** @description One attempt of a job. */
        AttemptAnswer: {
            /**
             * Format: uint32
             * @description The number of the attempt. It starts at 1 again if the job is retried after its end.
             */
            attempt: number;
            began_at?: string | null;
            /** @description `succeeded`, `failed`, `rescued` (the lease expired or the deadline passed), `snoozed` or `returned`. */
            end?: string | null;
            /** @description When the attempt ended; `null` while it runs. */
            ended_at?: string | null;
            /** @description The error, if the attempt failed or was rescued. */
            error?: components["schemas"]["ErrorAnswer"] | null;
            /**
             * Format: uint64
             * @description The number of the lease.
             */
            fence: number;
            worker: string;
        };
        /** @description How the delay before the next attempt is chosen. */
        BackoffWord: "exponential" | "fixed" | "list";
        /** @description The posted and held units of one window. */
        BalanceAnswer: {
            /** @description The end of a calendar window; `null` for other windows. */
            end?: string | null;
            /**
             * Format: int64
             * @description The units set aside by holds.
             */
            held: number;
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /**
             * Format: int64
             * @description The limit of the budget; `null` if the budget has no limit over this window.
             */
            limit?: number | null;
            /**
             * Format: int64
             * @description The units spent.
             */
            posted: number;
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /**
             * Format: int64
             * @description The units that are left; `null` without a limit, or if the window has ended and this build does not know its time zone.
             */
            remaining?: number | null;
            /** @description The start of a calendar window; `null` for other windows. */
            start?: string | null;
            /**
             * @description The unit of the amounts; one without a name if the scope has no budget.
             * @default {
             *       "decimals": 0,
             *       "name": "",
             *       "symbol": null
             *     }
             */
            unit?: components["schemas"]["Unit"];
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window: string;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        };
        /** @description A heartbeat, which extends the lease of a job. */
        BeatItem: {
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            id: string;
            /**
             * @description The progress of the job, which it keeps and which is sent to listeners.
             * @default null
             */
            progress?: components["schemas"]["ProgressFields"] | null;
        };
        /** @description The answer to a heartbeat. */
        BeatenAnswer: {
            /** @description When the lease expires unless another heartbeat extends it. */
            expires_at?: string | null;
            /** @description What the worker must do now. */
            order: components["schemas"]["Order"];
        };
        /** @description A blob: what is known about bytes that a storage backend keeps. */
        BlobAnswer: {
            /** @description The storage backend that has its bytes: `local` or `s3`. */
            backend: string;
            /** @description Its media type, such as `image/png`. */
            content_type: string;
            /** @description When its upload began. */
            created_at?: string | null;
            /** @description The caller that uploaded it. */
            created_by: components["schemas"]["ActorAnswer"];
            /** @description When it was deleted; `null` if it is not. */
            deleted_at?: string | null;
            /** @description The file name that it is offered under. */
            filename?: string | null;
            id: string;
            /**
             * Format: uint64
             * @description The number of jobs that refer to it.
             */
            jobs: number;
            /**
             * @description JSON that is stored with the blob for its owner.
             * @default null
             */
            metadata?: unknown;
            namespace: string;
            /** @description The references of the application, by name. */
            references: string[];
            /** @description The SHA-256 of its bytes, in hexadecimal; while it is uploaded, the announced one. */
            sha256?: string | null;
            /**
             * Format: uint64
             * @description Its length in bytes; while it is uploaded, the announced one.
             */
            size?: number | null;
            state: components["schemas"]["BlobStateWord"];
        };
        /** @description What a worker may do with blobs. */
        BlobCapabilities: {
            /**
             * @description Namespaces it may read.
             * @default []
             */
            read?: components["schemas"]["Pattern"][];
            /**
             * @description Namespaces it may write.
             * @default []
             */
            write?: components["schemas"]["Pattern"][];
        };
        /** @description Which blobs a list has. */
        BlobListWord: "live" | "deleted" | "pending" | "all";
        /** @description The state of a blob. */
        BlobStateWord: "pending" | "live" | "deleted" | "doomed";
        /** @description The current state of a budget: the answer of `GET /v1/budgets/{scope}`. */
        BudgetAnswer: {
            /**
             * @description The posted and held units of each window: first those that the budget limits, in the order of its limits' first use, then the
             *     others. Every scope has a balance over its `lifetime`, also without a limit over it.
             */
            balances: components["schemas"]["BalanceAnswer"][];
            /** @description Why the scope is frozen; missing if it is not. */
            freeze?: components["schemas"]["FreezeAnswer"] | null;
            /** @description Whether the scope refuses new charges. */
            frozen: boolean;
            /**
             * @description The rules for holds on this scope.
             * @default {
             *       "late": "charge",
             *       "life_ms_max": null,
             *       "overrun": "charge",
             *       "ttl_ms": null,
             *       "ttl_ms_max": null,
             *       "ttl_ms_min": 5000
             *     }
             */
            hold?: components["schemas"]["HoldPolicyBody"];
            /**
             * @description The limits, at least one. A charge must fit all of them.
             * @default []
             */
            limits?: components["schemas"]["LimitBody"][];
            /**
             * @description The parent budget. Every charge to this scope is charged to the parent as well, and must fit its limits.
             * @default null
             */
            parent?: string | null;
            /** @description Why the budget is changed; recorded in the journal. */
            reason?: string | null;
            /** @description How often its limits have refused charges since the server started; missing if none has. */
            refusals?: components["schemas"]["RefusalsAnswer"][];
            scope: string;
            /**
             * @description Whether the budget is only tried out: its limits and its trip refuse nothing, and what they would have refused is recorded as
             *     `budget.would_refuse`. Limits given in a request, other budgets of a chain and an explicit freeze refuse as usual.
             * @default false
             */
            shadow?: boolean;
            /**
             * @description Percentages of each limit, from 1 to 1000. An event is recorded when posted units reach one.
             * @default []
             */
            thresholds?: number[];
            /**
             * @description The scope freezes automatically when posted units exceed this limit.
             * @default null
             */
            trip?: components["schemas"]["LimitBody"] | null;
            /**
             * @description The name of the unit, for display, such as `usd` or `tokens`. Once the budget has spend or holds, its unit and decimals cannot be
             *     changed.
             * @default
             */
            unit?: string;
            /**
             * Format: uint8
             * @description The decimals of the unit, from 0 to 12. Amounts are whole numbers of its smallest part: with 6 decimals, 25000000
             *     is shown as 25.00. Default: 6 for `usd`, `eur` and `gbp`, else 0.
             * @default null
             */
            unit_decimals?: number | null;
            /**
             * @description The symbol that is shown before amounts, such as `$`; default: that of `usd`, `eur` or `gbp`, else none.
             * @default null
             */
            unit_symbol?: string | null;
        };
        /** @description The definition of a budget: the body of `PUT /v1/budgets/{scope}`. It replaces the whole definition. */
        BudgetBody: {
            /** @description Ignored: a field of the answer, which may be sent back. */
            balances?: unknown;
            /** @description Ignored: a field of the answer, which may be sent back. */
            freeze?: unknown;
            /** @description Ignored: a field of the answer, which may be sent back. */
            frozen?: unknown;
            /**
             * @description The rules for holds on this scope.
             * @default {
             *       "late": "charge",
             *       "life_ms_max": null,
             *       "overrun": "charge",
             *       "ttl_ms": null,
             *       "ttl_ms_max": null,
             *       "ttl_ms_min": 5000
             *     }
             */
            hold?: components["schemas"]["HoldPolicyBody"];
            /**
             * @description The limits, at least one. A charge must fit all of them.
             * @default []
             */
            limits?: components["schemas"]["LimitBody"][];
            /**
             * @description The parent budget. Every charge to this scope is charged to the parent as well, and must fit its limits.
             * @default null
             */
            parent?: string | null;
            /** @description Why the budget is changed; recorded in the journal. */
            reason?: string | null;
            /** @description Ignored: a field of the answer, which may be sent back. */
            refusals?: unknown;
            /** @description Ignored: a field of the answer, which may be sent back. */
            scope?: unknown;
            /**
             * @description Whether the budget is only tried out: its limits and its trip refuse nothing, and what they would have refused is recorded as
             *     `budget.would_refuse`. Limits given in a request, other budgets of a chain and an explicit freeze refuse as usual.
             * @default false
             */
            shadow?: boolean;
            /**
             * @description Percentages of each limit, from 1 to 1000. An event is recorded when posted units reach one.
             * @default []
             */
            thresholds?: number[];
            /**
             * @description The scope freezes automatically when posted units exceed this limit.
             * @default null
             */
            trip?: components["schemas"]["LimitBody"] | null;
            /**
             * @description The name of the unit, for display, such as `usd` or `tokens`. Once the budget has spend or holds, its unit and decimals cannot be
             *     changed.
             * @default
             */
            unit?: string;
            /**
             * Format: uint8
             * @description The decimals of the unit, from 0 to 12. Amounts are whole numbers of its smallest part: with 6 decimals, 25000000
             *     is shown as 25.00. Default: 6 for `usd`, `eur` and `gbp`, else 0.
             * @default null
             */
            unit_decimals?: number | null;
            /**
             * @description The symbol that is shown before amounts, such as `$`; default: that of `usd`, `eur` or `gbp`, else none.
             * @default null
             */
            unit_symbol?: string | null;
        };
        /** @description Jobs to enqueue: the body of `POST /v1/jobs/bulk`. */
        BulkBody: {
            jobs: components["schemas"]["JobBody"][];
        };
        /** @description What a worker may do, as lists of patterns. An empty list allows nothing. */
        Capabilities: {
            /**
             * @description What it may do with blobs.
             * @default {
             *       "read": [],
             *       "write": []
             *     }
             */
            blobs?: components["schemas"]["BlobCapabilities"];
            /** @description Scopes it may charge for jobs that have no hold. */
            charges?: components["schemas"]["Pattern"][];
            /**
             * @description Events it may emit.
             * @default []
             */
            events?: components["schemas"]["Pattern"][];
            /**
             * @description Kinds of jobs it may work on.
             * @default []
             */
            kinds?: components["schemas"]["Pattern"][];
            /**
             * @description Other operations it may call.
             * @default []
             */
            mutations?: components["schemas"]["Pattern"][];
            /**
             * @description Queues it may lease from.
             * @default []
             */
            queues?: components["schemas"]["Pattern"][];
        };
        /** @description A charge, and what each limit leaves after it. */
        ChargeAnswer: {
            /**
             * Format: int64
             * @description The units that were committed; missing while they are held.
             */
            actual?: number | null;
            /**
             * Format: int64
             * @description The units charged or held.
             */
            amount: number;
            /** @description The ancestors of the scope, which were charged the same units. */
            ancestors?: string[];
            /** @description What each limit leaves. */
            balances: components["schemas"]["LeftAnswer"][];
            scope: string;
        };
        /** @description Units to charge to a scope. */
        ChargeBody: {
            /**
             * Format: int64
             * @description The units to charge.
             */
            amount: number;
            /**
             * @description Limits that this charge must fit, in addition to those of the scope's budget.
             * @default []
             */
            limits?: components["schemas"]["LimitBody"][];
            scope: string;
        };
        /** @description The number of rows that were checked. */
        CheckedAnswer: {
            /** Format: uint64 */
            holds: number;
            /** Format: uint64 */
            jobs: number;
            /** Format: uint64 */
            scopes: number;
        };
        /** @description A time to live or an extension that the policies of budgets changed. */
        ClampedAnswer: {
            /**
             * Format: int64
             * @description What the hold got, in milliseconds.
             */
            granted_ms: number;
            /**
             * Format: int64
             * @description What was requested, in milliseconds.
             */
            requested_ms: number;
        };
        /** @description The result of a command. */
        CommandAnswer: {
            /** @description The command was only checked. */
            dry_run: boolean;
            /** @description The grants that were redeemed. */
            grants: components["schemas"]["RedeemedAnswer"][];
            /** @description The hold that was placed. */
            hold?: components["schemas"]["PlacedAnswer"] | null;
            /** @description The id of the command; missing if it was only checked. */
            id?: string | null;
            /** @description The jobs that were enqueued, in the order of the request; if the command was only checked, those that exist already. */
            jobs: components["schemas"]["EnqueuedAnswer"][];
            /** @description The charges that were posted at once. */
            posted: components["schemas"]["ChargeAnswer"][];
            /** @description The command was executed earlier under the same idempotency key; this is that result. */
            replayed: boolean;
            /**
             * @description `ttl_lowered` or `ttl_raised` if the hold does not live as long as requested; `would_refuse` if `would_refuse` is not empty.
             * @default []
             */
            warnings?: string[];
            /** @description What budgets in shadow mode would have refused. */
            would_refuse?: components["schemas"]["WouldRefuseAnswer"][];
        };
        /** @description Charges, redemptions and jobs that are executed together or not at all. */
        CommandBody: {
            /**
             * @description The units to charge.
             * @default []
             */
            charges?: components["schemas"]["ChargeBody"][];
            /**
             * @description What the journal records with the command.
             * @default {
             *       "correlation_id": null,
             *       "reason": null
             *     }
             */
            context?: components["schemas"]["ContextBody"];
            /**
             * @description Check the command without executing it.
             * @default false
             */
            dry_run?: boolean;
            /**
             * @description The jobs to enqueue.
             * @default []
             */
            jobs?: components["schemas"]["JobBody"][];
            /**
             * @description What the expiry of the hold does; only with `"settle": "hold"`. Default: it frees the units.
             * @default null
             */
            on_expiry?: components["schemas"]["OnExpiryBody"] | null;
            /**
             * @description The grants to redeem.
             * @default []
             */
            redeem?: components["schemas"]["RedeemBody"][];
            /** @description References of the application to blobs, which keep them from being collected. */
            references?: components["schemas"]["ReferenceBody"][];
            /**
             * @description When the charges are settled; default: `now`, which spends the units at once.
             * @default now
             */
            settle?: components["schemas"]["SettleWord"];
            /** @description The same as `ttl_ms`, as a duration such as `10m` or `1h30m`. */
            ttl?: string | null;
            /**
             * Format: int64
             * @description The time to live of the hold, in milliseconds; only with `"settle": "hold"`. Default: the budget's setting.
             * @default null
             */
            ttl_ms?: number | null;
        };
        /** @description The end of a signed upload. */
        CommitBlobBody: {
            /**
             * @description The parts of an upload in parts.
             * @default []
             */
            parts?: components["schemas"]["PartBody"][];
            /**
             * @description The id of an upload in parts.
             * @default null
             */
            upload_id?: string | null;
        };
        /** @description The units that were spent: `actual`, or `actuals`, or neither to commit exactly the held units. */
        CommitBody: {
            /**
             * Format: int64
             * @description The units spent, for a hold with one charge.
             * @default null
             */
            actual?: number | null;
            /**
             * @description The units spent on each scope, for a hold with several charges.
             * @default []
             */
            actuals?: components["schemas"]["ActualBody"][];
        };
        /** @description The successful end of a job. */
        CompleteBody: {
            /** @description The blobs that the job made. They are not collected while the job is kept. */
            blobs?: string[];
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            /**
             * @description JSON that is stored as the result; default: `null`.
             * @default null
             */
            result?: unknown;
            /**
             * @description The units spent; default: the held units. An empty list means that nothing was spent.
             * @default null
             */
            usage?: components["schemas"]["Usage"][] | null;
        };
        /** @description The successful end of a job. */
        CompleteItem: {
            /** @description The blobs that the job made. They are not collected while the job is kept. */
            blobs?: string[];
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            id: string;
            /**
             * @description JSON that is stored as the result; default: `null`.
             * @default null
             */
            result?: unknown;
            /**
             * @description The units spent; default: the held units. An empty list means that nothing was spent.
             * @default null
             */
            usage?: components["schemas"]["Usage"][] | null;
        };
        /** @description What the journal records with a command. */
        ContextBody: {
            /**
             * @description An id of the caller's own that connects entries of the journal.
             * @default null
             */
            correlation_id?: string | null;
            /**
             * @description Why the command is submitted.
             * @default null
             */
            reason?: string | null;
        };
        /** @description Units charged for a job on one scope. */
        CostAnswer: {
            /**
             * Format: int64
             * @description The units charged.
             */
            amount: number;
            scope: string;
        };
        /** @description The policy for spend that a hold does not cover: an overrun or a late commit. */
        Cover: "charge" | "refuse";
        /** @description A credential, without its token. */
        CredentialAnswer: {
            /** @description The capabilities of a worker; missing for an API key. */
            capabilities?: components["schemas"]["Capabilities"] | null;
            /** @description When the credential expires; `null`: never. */
            expires_at?: string | null;
            id: string;
            /** @description When the token was last used, to the hour; missing in lists. */
            last_used_at?: string | null;
            name: string;
            /** @description The role of an API key; missing for a worker. */
            role?: components["schemas"]["Role"] | null;
            /** @description `good`, `expired` or `revoked`. */
            state: string;
        };
        /** @description Units to give back to a scope. */
        CreditBody: {
            /**
             * Format: int64
             * @description The units to give back. More than the scope has spent is credited too, with a warning in the answer.
             */
            amount: number;
            /**
             * @description The hold that was charged too much. The credit counts at the time when the hold was placed; default: now.
             * @default null
             */
            hold?: string | null;
            /**
             * @description Why the units are given back; recorded in the journal.
             * @default null
             */
            reason?: string | null;
        };
        /** @description A credit, and what each limit leaves after it. */
        CreditedAnswer: {
            /**
             * Format: int64
             * @description The units that were committed; missing while they are held.
             */
            actual?: number | null;
            /**
             * Format: int64
             * @description The units charged or held.
             */
            amount: number;
            /** @description The ancestors of the scope, which were charged the same units. */
            ancestors?: string[];
            /** @description What each limit leaves. */
            balances: components["schemas"]["LeftAnswer"][];
            /**
             * Format: int64
             * @description The units credited above all that the scope has spent; its limits admit that much more than their amounts.
             * @default 0
             */
            excess?: number;
            scope: string;
            /**
             * @description `credit_exceeds_spend` if `excess` is above 0; else empty.
             * @default []
             */
            warnings?: string[];
        };
        /** @description The units charged for jobs on one day. */
        DayCostAnswer: {
            /**
             * Format: int64
             * @description The units charged.
             */
            amount: number;
            /** @description The day in UTC, such as `2026-11-01`. */
            day: string;
            kind: string;
            queue: string;
            scope: string;
        };
        /** @description The dead jobs of a queue and kind that have the same error. */
        DeadGroupAnswer: {
            /**
             * Format: int64
             * @description The number of dead jobs.
             */
            count: number;
            /** @description The error of the job that died last. Its fingerprint is that of all jobs of the group. */
            error: components["schemas"]["ErrorAnswer"];
            /** @description When the first of the jobs died. */
            first_at: string;
            kind: string;
            /** @description When the last of the jobs died. */
            last_at: string;
            queue: string;
        };
        /** @description A change of one waiting job. */
        EditBody: {
            /** @description The same as `delay_ms`, as a duration such as `10m` or `1h30m`. */
            delay?: string | null;
            /**
             * Format: int64
             * @description When the job is ready, in milliseconds from now; default: unchanged.
             * @default null
             */
            delay_ms?: number | null;
            /**
             * Format: int16
             * @description The new priority; default: unchanged.
             * @default null
             */
            priority?: number | null;
            /**
             * @description Why the job is changed; recorded in the journal.
             * @default null
             */
            reason?: string | null;
        };
        /** @description A change of waiting jobs. Either `ids` or `filter` is required. */
        EditManyBody: {
            /**
             * @description The `next` of an earlier answer, to continue there; only with `filter`.
             * @default null
             */
            cursor?: string | null;
            /** @description The same as `delay_ms`, as a duration such as `10m` or `1h30m`. */
            delay?: string | null;
            /**
             * Format: int64
             * @description When the jobs are ready, in milliseconds from now; default: unchanged.
             * @default null
             */
            delay_ms?: number | null;
            /**
             * @description Only count the jobs.
             * @default false
             */
            dry_run?: boolean;
            /**
             * @description All jobs that match.
             * @default null
             */
            filter?: components["schemas"]["FilterBody"] | null;
            /**
             * @description The jobs, by id.
             * @default []
             */
            ids?: string[];
            /**
             * Format: uint
             * @description The number of jobs after which to answer; default: 10,000.
             * @default null
             */
            limit?: number | null;
            /**
             * Format: int16
             * @description The new priority; default: unchanged.
             * @default null
             */
            priority?: number | null;
            /**
             * @description Why the jobs are changed; recorded in the journal.
             * @default null
             */
            reason?: string | null;
        };
        /** @description An event of the application that a worker emits about its job. */
        EmitBody: {
            /**
             * @description JSON for listeners; default: `null`. At most 16 KiB.
             * @default null
             */
            data?: unknown;
            /** @description The name of the event, such as `preview.ready`. */
            event: string;
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
        };
        /** @description A job that was enqueued. */
        EnqueuedAnswer: {
            /** @description `false`: the queue already had a job with this idempotency key, and this is its id. */
            created: boolean;
            id: string;
        };
        /** @description Jobs that were enqueued, in the order of the request. */
        EnqueuedJobsAnswer: {
            jobs: components["schemas"]["EnqueuedAnswer"][];
        };
        /** @description The error of an attempt. */
        ErrorAnswer: {
            /** @description A hash that is equal for errors that differ only in numbers. */
            fingerprint: string;
            /** @description The type of the error, such as `timeout`. */
            kind: string;
            message: string;
        };
        /** @description The error of a failed attempt. */
        ErrorBody: {
            /** @description The type of the error, such as `timeout`. */
            kind: string;
            /** @default  */
            message?: string;
        };
        /** @description An event of the journal. */
        EventAnswer: {
            /** @description The caller of the command. */
            actor: components["schemas"]["ActorAnswer"];
            /** @description When the event happened. */
            at?: string | null;
            /** @description The command that caused the event. */
            command: string;
            /** @description The correlation id that the caller gave. */
            correlation_id?: string | null;
            /** @description The fields of the event; they depend on `kind`. */
            data: unknown;
            /** @description The type of the event, such as `hold.placed`. */
            kind: string;
            /**
             * Format: uint64
             * @description The position in the journal: without gaps, in the order of commits.
             */
            position: number;
            /** @description The reason that the caller gave. */
            reason?: string | null;
            /** @description The object that the event changed. */
            stream: components["schemas"]["StreamAnswer"];
            tenant: string;
            /** @description The W3C trace context in which the job was enqueued; for events of other objects, that of the request. */
            traceparent?: string | null;
            /**
             * Format: uint64
             * @description The version of that object after the event.
             */
            version: number;
        };
        /** @description An extension of a hold. */
        ExtendBody: {
            /** @description The same as `by_ms`, as a duration such as `10m` or `1h30m`; one of the two is required. */
            by?: string;
            /**
             * Format: int64
             * @description How much later the hold expires, in milliseconds.
             */
            by_ms?: number;
        } & (unknown | unknown);
        /** @description A hold that was extended. */
        ExtendedAnswer: {
            /** @description The requested extension and the one that the budgets allow; missing if they are the same. */
            clamped?: components["schemas"]["ClampedAnswer"] | null;
            /** @description The new time of expiry. */
            expires_at?: string | null;
            id: string;
            /**
             * @description `ttl_lowered` if the hold was extended by less than requested; else empty.
             * @default []
             */
            warnings?: string[];
        };
        /** @description A failed attempt. */
        FailBody: {
            /** @description What went wrong. */
            error: components["schemas"]["ErrorBody"];
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            /** @description The same as `retry_after_ms`, as a duration such as `10m` or `1h30m`. */
            retry_after?: string | null;
            /**
             * Format: int64
             * @description How long to wait before the next attempt, in milliseconds; default: the delay of the retry policy.
             * @default null
             */
            retry_after_ms?: number | null;
            /**
             * @description Whether another attempt may succeed; `false` makes the job dead. Default: `true`.
             * @default true
             */
            retryable?: boolean;
            /**
             * @description The units spent by this attempt; default: none.
             * @default null
             */
            usage?: components["schemas"]["Usage"][] | null;
        };
        /** @description A failed attempt. */
        FailItem: {
            /** @description What went wrong. */
            error: components["schemas"]["ErrorBody"];
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            id: string;
            /** @description The same as `retry_after_ms`, as a duration such as `10m` or `1h30m`. */
            retry_after?: string | null;
            /**
             * Format: int64
             * @description How long to wait before the next attempt, in milliseconds; default: the delay of the retry policy.
             * @default null
             */
            retry_after_ms?: number | null;
            /**
             * @description Whether another attempt may succeed; `false` makes the job dead. Default: `true`.
             * @default true
             */
            retryable?: boolean;
            /**
             * @description The units spent by this attempt; default: none.
             * @default null
             */
            usage?: components["schemas"]["Usage"][] | null;
        };
        /** @description The statistics of a queue. */
        FiguresAnswer: {
            /**
             * Format: int64
             * @description The jobs that were cancelled in the period.
             */
            cancelled: number;
            /**
             * Format: int64
             * @description The jobs that died in the period.
             */
            dead: number;
            /**
             * Format: int64
             * @description The jobs that were enqueued in the period.
             */
            enqueued: number;
            /**
             * Format: int64
             * @description The attempts that failed in the period.
             */
            failed_attempts: number;
            /** @description When the longest current lease began. */
            oldest_lease?: string | null;
            /** @description When the job that has waited longest became ready. It may be too early if many jobs of its kind have a higher priority. */
            oldest_waiting?: string | null;
            /**
             * Format: int64
             * @description The period of the following counts, in milliseconds; it ends with the current minute.
             */
            over_ms: number;
            /** @description The counts by minute, with `series=true`. */
            series?: components["schemas"]["SeriesAnswer"] | null;
            /** @description The number of jobs in each state. */
            states: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description The jobs that succeeded in the period.
             */
            succeeded: number;
        };
        /** @description The properties of jobs. A job matches if it has all that are given. */
        FilterBody: {
            /**
             * @description The fingerprint of the job's last error.
             * @default null
             */
            fingerprint?: string | null;
            /**
             * @description The flow key.
             * @default null
             */
            key?: string | null;
            /**
             * @description The kind; `video.*` matches every kind that begins with `video.`.
             * @default null
             */
            kind?: string | null;
            /** @default null */
            queue?: string | null;
            /**
             * @description The state; not allowed for operations on dead jobs.
             * @default null
             */
            state?: components["schemas"]["JobState"] | null;
            /**
             * @description A tag that the job has.
             * @default null
             */
            tag?: string | null;
        };
        /** @description The state of a job after an operation on it. */
        FinishedAnswer: {
            /** @description The units charged for the job so far, by scope. */
            cost: components["schemas"]["CostAnswer"][];
            /** @description The hold of the job, or its last one. */
            hold?: string | null;
            id: string;
            /**
             * Format: int64
             * @description The units that the lease which this request ended spent above the job's hold.
             * @default 0
             */
            overrun?: number;
            /** @description When the job runs again; `null` if it does not. */
            run_at?: string | null;
            state: components["schemas"]["JobState"];
            /**
             * @description `overrun` if `overrun` is above 0; else empty.
             * @default []
             */
            warnings?: string[];
        };
        /** @description Why a scope is frozen. */
        FreezeAnswer: {
            /** @description The caller that froze it. */
            actor: components["schemas"]["ActorAnswer"];
            /** @constant */
            by: "order";
            /** @description The reason that the caller gave. */
            reason?: string | null;
        } | {
            /** @constant */
            by: "trip";
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /** @description When the window ends and the scope unfreezes; `null` for a lifetime or rolling window, which has no end. */
            until?: string | null;
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window: string;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        };
        /** @description What a collection did. */
        GcAnswer: {
            /**
             * Format: uint64
             * @description The bytes of these; of a dry run, those that are due.
             */
            bytes: number;
            /**
             * Format: uint
             * @description The blobs that were removed.
             */
            collected: number;
            /** @description Whether nothing was changed. */
            dry_run: boolean;
            /**
             * Format: uint
             * @description The blobs that were due.
             */
            due: number;
            /**
             * Format: uint
             * @description The blobs whose bytes could not be deleted; the next collection tries them again.
             */
            failed: number;
            /** @description Whether more may be due. */
            more: boolean;
        };
        /** @description A collection to run. */
        GcBody: {
            /**
             * @description Whether to report only what is due; default: true.
             * @default true
             */
            dry_run?: boolean;
            /**
             * Format: uint
             * @description The most blobs to collect; default: 1,000.
             * @default null
             */
            limit?: number | null;
        };
        /** @description A grant, without its token. */
        GrantAnswer: {
            /** @description Until when the grant can be redeemed. */
            expires_at?: string | null;
            id: string;
            /** @description Any JSON. */
            payload: unknown;
            purpose: string;
            /** @description `open`, `redeemed`, `revoked` or `expired`. */
            state: string;
            subject: string;
        };
        HealthAnswer: {
            status: string;
        };
        /** @description A heartbeat, which extends the lease of a job. */
        HeartbeatBody: {
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            /**
             * @description The progress of the job, which it keeps and which is sent to listeners.
             * @default null
             */
            progress?: components["schemas"]["ProgressFields"] | null;
        };
        /** @description The units that the holds of jobs set aside now. */
        HeldAnswer: {
            /**
             * Format: int64
             * @description The units held, summed over all scopes with this unit.
             */
            amount: number;
            kind: string;
            queue: string;
            /** @description The unit of the budgets; empty if they name none. */
            unit: string;
        };
        /** @description One charge of a hold. */
        HeldChargeAnswer: {
            /**
             * Format: int64
             * @description The units committed; `null` until the hold is committed.
             */
            actual?: number | null;
            /**
             * Format: int64
             * @description The units held.
             */
            amount: number;
            /** @description The ancestors of the scope, which hold the same units. */
            ancestors: string[];
            scope: string;
        };
        /** @description Units that the hold of a job sets aside on one scope. */
        HeldUnitsAnswer: {
            /**
             * Format: int64
             * @description The units held.
             */
            amount: number;
            scope: string;
        };
        /** @description The current state of a hold: the answer of `GET /v1/holds/{id}`. */
        HoldAnswer: {
            /** @description The charges of the hold. */
            charges: components["schemas"]["HeldChargeAnswer"][];
            /** @description When the hold expires; `null` if it lasts until its job ends. */
            expires_at?: string | null;
            id: string;
            /** @description The job that settles the hold, if it belongs to one. */
            job?: string | null;
            /** @description The units that the expiry posts; missing if it frees them. */
            on_expiry?: components["schemas"]["OnExpiryBody"] | null;
            placed_at?: string | null;
            state: components["schemas"]["HoldState"];
        };
        /** @description A hold to place. */
        HoldBody: {
            /** @description The units to hold. */
            charges: components["schemas"]["ChargeBody"][];
            /**
             * @description What the journal records with the hold.
             * @default {
             *       "correlation_id": null,
             *       "reason": null
             *     }
             */
            context?: components["schemas"]["ContextBody"];
            /**
             * @description Check the hold without placing it.
             * @default false
             */
            dry_run?: boolean;
            /**
             * @description What the expiry of the hold does; default: it frees the units.
             * @default null
             */
            on_expiry?: components["schemas"]["OnExpiryBody"] | null;
            /** @description The same as `ttl_ms`, as a duration such as `10m` or `1h30m`. */
            ttl?: string | null;
            /**
             * Format: int64
             * @description The time to live of the hold, in milliseconds; default: the budget's setting.
             * @default null
             */
            ttl_ms?: number | null;
        };
        /** @description The rules for holds on a budget. */
        HoldPolicyBody: {
            /**
             * @description Whether a commit after expiry is charged or refused.
             * @default charge
             */
            late?: components["schemas"]["Cover"];
            /** @description The same as `life_ms_max`, as a duration such as `10m` or `1h30m`. */
            life_max?: string | null;
            /**
             * Format: int64
             * @description The longest time from placing a hold to its expiry over all extensions, in milliseconds; `null`: no bound.
             * @default null
             */
            life_ms_max?: number | null;
            /**
             * @description Whether a commit above the held amount is charged or refused.
             * @default charge
             */
            overrun?: components["schemas"]["Cover"];
            /** @description The same as `ttl_ms`, as a duration such as `10m` or `1h30m`. */
            ttl?: string | null;
            /** @description The same as `ttl_ms_max`, as a duration such as `10m` or `1h30m`. */
            ttl_max?: string | null;
            /** @description The same as `ttl_ms_min`, as a duration such as `10m` or `1h30m`. */
            ttl_min?: string;
            /**
             * Format: int64
             * @description The time to live of a hold that requests none, in milliseconds; `null`: the server's default.
             * @default null
             */
            ttl_ms?: number | null;
            /**
             * Format: int64
             * @description The longest time to live of a hold, in milliseconds; longer requests are lowered to it, with a warning in the answer.
             *     `null`: the server's default, one hour unless it is configured.
             * @default null
             */
            ttl_ms_max?: number | null;
            /**
             * Format: int64
             * @description The shortest time to live of a hold, in milliseconds.
             * @default 5000
             */
            ttl_ms_min?: number;
        };
        /** @description The state of a hold. */
        HoldState: "held" | "committed" | "released" | "expired";
        /** @description A token that was created. */
        IssuedAnswer: {
            /** @description When the token expires; `null`: never. */
            expires_at?: string | null;
            id: string;
            /** @description The token. It is returned only once: `null` when the request is replayed. */
            token?: string | null;
        };
        /** @description The answer to the report on one job: its result, or the problem. */
        ItemAnswerOfBeatenAnswer: components["schemas"]["BeatenAnswer"] | {
            problem: components["schemas"]["Problem"];
        };
        /** @description The answer to the report on one job: its result, or the problem. */
        ItemAnswerOfFinishedAnswer: components["schemas"]["FinishedAnswer"] | {
            problem: components["schemas"]["Problem"];
        };
        /** @description The answers to reports on several jobs, in the order of the request. */
        ItemsAnswerOfBeatenAnswer: {
            items: components["schemas"]["ItemAnswerOfBeatenAnswer"][];
        };
        /** @description The answers to reports on several jobs, in the order of the request. */
        ItemsAnswerOfFinishedAnswer: {
            items: components["schemas"]["ItemAnswerOfFinishedAnswer"][];
        };
        /** @description Reports on several jobs. */
        ItemsBodyOfBeatItem: {
            items: components["schemas"]["BeatItem"][];
        };
        /** @description Reports on several jobs. */
        ItemsBodyOfCompleteItem: {
            items: components["schemas"]["CompleteItem"][];
        };
        /** @description Reports on several jobs. */
        ItemsBodyOfFailItem: {
            items: components["schemas"]["FailItem"][];
        };
        /** @description Reports on several jobs. */
        ItemsBodyOfProgressItem: {
            items: components["schemas"]["ProgressItem"][];
        };
        /** @description Reports on several jobs. */
        ItemsBodyOfReturnItem: {
            items: components["schemas"]["ReturnItem"][];
        };
        /** @description Reports on several jobs. */
        ItemsBodyOfSnoozeItem: {
            items: components["schemas"]["SnoozeItem"][];
        };
        /** @description An action that a caller can perform on a job without saying more. */
        JobAct: "retry" | "cancel" | "discard" | "erase";
        /** @description The current state of a job. */
        JobAnswer: {
            /**
             * @description What can be done with the job in its state.
             * @default []
             */
            acts?: components["schemas"]["JobAct"][];
            /**
             * Format: uint32
             * @description The number of attempts so far.
             */
            attempts: number;
            /** @description The scope whose budget the job waits for. */
            awaits?: string | null;
            /**
             * @description The blobs that the job uses, and those that it made.
             * @default []
             */
            blobs?: string[];
            /** @description The job was cancelled while it was leased, and its worker has not stopped yet. */
            cancelling: boolean;
            /**
             * @description The last checkpoint that a worker reported, which the next lease carries; `null` if there is none.
             * @default null
             */
            checkpoint?: unknown;
            /** @description The units charged for the job so far, by scope. */
            cost: components["schemas"]["CostAnswer"][];
            enqueued_at?: string | null;
            /** @description The error of the last failed attempt. */
            error?: components["schemas"]["ErrorAnswer"] | null;
            /** @description The hold that pays for the job. */
            hold?: string | null;
            id: string;
            idempotency_key?: string | null;
            key?: string | null;
            kind: string;
            /** @description The current lease; `null` while no worker has the job. */
            lease?: components["schemas"]["LeaseAnswer"] | null;
            /**
             * Format: uint32
             * @description The number of failed attempts after which the job is dead; `null`: the setting of its queue.
             */
            max_attempts?: number | null;
            /** @description Any JSON. */
            metadata: unknown;
            parent?: string | null;
            /** @description Any JSON. */
            payload: unknown;
            /** Format: int16 */
            priority: number;
            /**
             * @description The last progress that a worker reported; `null` if there is none.
             * @default null
             */
            progress?: components["schemas"]["ProgressAnswer"] | null;
            queue: string;
            /** @description The JSON that the worker returned. */
            result: unknown;
            /** @description When the job is or was ready; for a finished job, when it ended. */
            run_at?: string | null;
            state: components["schemas"]["JobState"];
            tags: string[];
            /** @description The W3C trace context in which the job was enqueued. */
            traceparent?: string | null;
        };
        /** @description A job to enqueue. */
        JobBody: {
            /** @description The blobs that the job uses, at most 100 together with those that it makes. They are not collected while the job is kept. */
            blobs?: string[];
            /** @description The same as `deadline_ms`, as a duration such as `10m` or `1h30m`. */
            deadline?: string | null;
            /**
             * Format: int64
             * @description How long one attempt may run, in milliseconds; default: the queue's setting.
             * @default null
             */
            deadline_ms?: number | null;
            /** @description The same as `delay_ms`, as a duration such as `10m` or `1h30m`. */
            delay?: string;
            /**
             * Format: int64
             * @description How long to wait before the job is ready, in milliseconds; default: 0.
             * @default 0
             */
            delay_ms?: number;
            /**
             * @description Makes the job unique in its queue: a second job with the same key is not enqueued.
             * @default null
             */
            idempotency_key?: string | null;
            /**
             * @description The flow key: the queue can limit concurrency and rate for each key.
             * @default null
             */
            key?: string | null;
            /** @description The type of work; a worker chooses its handler by it. */
            kind: string;
            /**
             * Format: uint32
             * @description The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting.
             * @default null
             */
            max_attempts?: number | null;
            /**
             * @description JSON that is stored with the job for its owner; default: `null`.
             * @default null
             */
            metadata?: unknown;
            /**
             * @description The job that caused this one.
             * @default null
             */
            parent?: string | null;
            /**
             * @description JSON for the worker; default: `null`.
             * @default null
             */
            payload?: unknown;
            /**
             * @description Use the payload of the first grant that the command redeems, instead of `payload`.
             * @default false
             */
            payload_from_grant?: boolean;
            /**
             * Format: int16
             * @description Jobs with a higher priority run first; default: 0. A difference of 1 outweighs one minute of waiting.
             * @default 0
             */
            priority?: number;
            queue: string;
            /**
             * @description How the job is retried; default: the queue's setting.
             * @default null
             */
            retry?: components["schemas"]["RetryBody"] | null;
            /**
             * @description Tags to find the job by.
             * @default []
             */
            tags?: string[];
        };
        /** @description The state of a job. */
        JobState: "scheduled" | "queued" | "awaiting_budget" | "leased" | "succeeded" | "cancelled" | "dead";
        /** @description An API key to create. */
        KeyBody: {
            /** @description The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`. */
            expires_in?: string | null;
            /**
             * Format: int64
             * @description How long the key is valid, in milliseconds; default: 90 days.
             * @default null
             */
            expires_in_ms?: number | null;
            name: string;
            /**
             * @description What the key permits: a role other than `operator` and `worker`, which have tokens of their own.
             * @enum {string}
             */
            role: "admin" | "user" | "agent" | "viewer" | "monitor";
        };
        /** @description The lease of a job. */
        LeaseAnswer: {
            /** @description When the lease expires unless a heartbeat extends it. */
            expires_at?: string | null;
            /**
             * Format: uint64
             * @description The number of the lease. Every report on the job must carry it.
             */
            fence: number;
            /** @description When the lease began. */
            since?: string | null;
            /** @description The worker that has the lease. */
            worker: string;
        };
        /** @description A request for jobs to work on. */
        LeaseBody: {
            /**
             * Format: uint32
             * @description The maximum number of jobs; default: 1.
             * @default 1
             */
            capacity?: number;
            /**
             * @description The kinds to lease. `video.*` matches every kind that begins with `video.`; default: all kinds that the worker may work on.
             * @default []
             */
            kinds?: string[];
            /** @description The same as `lease_ms`, as a duration such as `10m` or `1h30m`. */
            lease?: string | null;
            /**
             * Format: int64
             * @description How long a lease lasts without a heartbeat, in milliseconds; default: the queue's setting.
             * @default null
             */
            lease_ms?: number | null;
            /** @description The queues to lease from. */
            queues: string[];
            /** @description The same as `wait_ms`, as a duration such as `10m` or `1h30m`. */
            wait?: string;
            /**
             * Format: int64
             * @description How long to wait for a job if none is ready, in milliseconds; default: 0, at most one minute.
             * @default 0
             */
            wait_ms?: number;
            /**
             * @description The name of the worker, if the token does not have one.
             * @default null
             */
            worker?: string | null;
        };
        /** @description A job that was leased to a worker. */
        LeasedAnswer: {
            /**
             * Format: uint32
             * @description The number of this attempt, counted from 1.
             */
            attempt: number;
            /**
             * @description The blobs that the job uses.
             * @default []
             */
            blobs?: string[];
            /**
             * @description The last checkpoint that an earlier attempt reported: where to go on. `null` if there is none.
             * @default null
             */
            checkpoint?: unknown;
            /**
             * @description The units that the hold sets aside, by scope; empty if the job has no hold. `null` if the hold could not be read, or if the holds
             *     of all leased jobs together are too large for one answer.
             * @default null
             */
            held?: components["schemas"]["HeldUnitsAnswer"][] | null;
            /** @description The hold that pays for the job. */
            hold?: string | null;
            id: string;
            idempotency_key?: string | null;
            /** @description The flow key. */
            key?: string | null;
            kind: string;
            lease?: components["schemas"]["LeaseAnswer"] | null;
            /**
             * Format: uint32
             * @description The number of failed attempts after which the job is dead; `null`: the setting of the job's retry policy or of its queue.
             */
            max_attempts?: number | null;
            /**
             * @description Any JSON.
             * @default null
             */
            metadata?: unknown;
            /** @description Any JSON. */
            payload: unknown;
            queue: string;
            /** @default [] */
            tags?: string[];
            /**
             * @description The W3C trace context for the worker's spans: that of the job or, if the server exports spans, of this attempt.
             * @default null
             */
            traceparent?: string | null;
        };
        /** @description The jobs that were leased; empty if none became ready in time. */
        LeasedJobsAnswer: {
            jobs: components["schemas"]["LeasedAnswer"][];
        };
        /** @description The units that a limit leaves after a charge. */
        LeftAnswer: {
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /** Format: int64 */
            limit: number;
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /**
             * Format: int64
             * @description The units that are left.
             */
            remaining: number;
            /** @description The ancestor that has the limit; missing if it is the charged scope. */
            scope?: string | null;
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window: string;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        };
        /** @description A limit: a number of units per window. */
        LimitBody: {
            /**
             * Format: int64
             * @description The units that may be posted and held in the window; for a bucket, its capacity.
             */
            amount: number;
            /** @description The same as `length_ms`, as a duration such as `10m` or `1h30m`. */
            length?: string | null;
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /** @description The first day of a `week`; default: Monday. */
            week_start?: components["schemas"]["Weekday"] | null;
            /**
             * @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`, with the fields that it needs; or all of it as
             *     text: `month@Europe/Berlin`, `week@UTC:sunday`, `rolling:1h`, `bucket:10000/h`.
             */
            window: string;
            /** @description The time zone of a calendar window, such as `Europe/Berlin`; default: UTC. */
            zone?: string | null;
        };
        /** @description What a link allows. */
        LinkAct: "read" | "upload";
        /** @description A link that was created. */
        LinkAnswer: {
            /** @description When it ends. */
            expires_at?: string | null;
            /** @description Its id, by which it can be revoked. */
            id: string;
            /** @description The address, which needs no token. It is returned only once: `null` when the request is replayed. */
            url?: string | null;
        };
        /** @description A link to create. */
        LinkBody: {
            /** @description The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`. */
            expires_in?: string | null;
            /**
             * Format: uint64
             * @description How long it is valid, in milliseconds, at most seven days; default: one hour.
             * @default null
             */
            expires_in_ms?: number | null;
        };
        /** @description A link, without its address. */
        LinkInfo: {
            /** @description Whether it reads the blob or uploads its bytes. */
            act: components["schemas"]["LinkAct"];
            /** @description The blob that it opens. */
            blob: string;
            /** @description When it ends. */
            expires_at?: string | null;
            /** @description Its id, by which it can be revoked. */
            id: string;
            /** @description `good`, `expired` or `revoked`. */
            state: string;
        };
        /**
         * @description The order of a list.
         * @enum {string}
         */
        ListOrder: "oldest" | "newest";
        /** @description A request of a caller, as far as its price depends on it. */
        MeteredOperationBody: {
            /** @description The HTTP method, such as `POST`. */
            method: string;
            /** @description The path, with its query if a price depends on it: `/claims?lens=trust`. */
            path: string;
            /**
             * Format: uint64
             * @description The size of the payload in bytes.
             * @default 0
             */
            payload_bytes?: number;
        };
        /** @description A grant to create. */
        MintBody: {
            /**
             * @description JSON that a redemption returns; default: `null`.
             * @default null
             */
            payload?: unknown;
            /** @description What the grant allows; a redemption must name the same purpose. */
            purpose: string;
            /** @description The subject that may use the grant; a redemption must name the same subject. */
            subject: string;
            /** @description The same as `ttl_ms`, as a duration such as `10m` or `1h30m`; one of the two is required. */
            ttl?: string;
            /**
             * Format: int64
             * @description How long the grant can be redeemed, in milliseconds.
             */
            ttl_ms?: number;
        } & (unknown | unknown);
        /** @description A grant that was created. */
        MintedAnswer: {
            /** @description Until when the grant can be redeemed. */
            expires_at?: string | null;
            id: string;
            /** @description The token. It is returned only once: `null` when the request is replayed. */
            token?: string | null;
        };
        /**
         * @description What to do with missed ticks. A tick is missed if it is handled more than 60 seconds late, or if the next one is due
         *     already.
         */
        Missed: "skip" | "one" | "all";
        /** @description A move of one job to another queue. */
        MoveBody: {
            queue: string;
            /**
             * @description Why the job is moved; recorded in the journal.
             * @default null
             */
            reason?: string | null;
        };
        /** @description A move of dead jobs to another queue. Either `ids` or `filter` is required. */
        MoveManyBody: {
            /**
             * @description The `next` of an earlier answer, to continue there; only with `filter`.
             * @default null
             */
            cursor?: string | null;
            /**
             * @description Only count the jobs.
             * @default false
             */
            dry_run?: boolean;
            /**
             * @description All jobs that match.
             * @default null
             */
            filter?: components["schemas"]["FilterBody"] | null;
            /**
             * @description The jobs, by id.
             * @default []
             */
            ids?: string[];
            /**
             * Format: uint
             * @description The number of jobs after which to answer; default: 10,000.
             * @default null
             */
            limit?: number | null;
            /**
             * @description Why the jobs are changed; recorded in the journal.
             * @default null
             */
            reason?: string | null;
            /** @description The queue to move them to. */
            to: string;
        };
        /** @description A namespace and its rules. */
        NamespaceAnswer: {
            /**
             * Format: uint64
             * @description The most bytes of one blob; default: 5 TiB.
             * @default 5497558138880
             */
            bytes_max?: number;
            /**
             * @description The scope that stored bytes are charged to; `null`: none. It has a budget with lifetime limits only.
             * @default null
             */
            charge?: string | null;
            /**
             * Format: int64
             * @description How long a deleted blob can be restored, in milliseconds; default: 7 days.
             * @default 604800000
             */
            grace_ms?: number;
            name: string;
            /** @description Why the namespace is changed; recorded in the journal. */
            reason?: string | null;
            /**
             * Format: int64
             * @description How long a blob without references is kept, in milliseconds; `null`: until it is deleted.
             * @default null
             */
            unreferenced_ms?: number | null;
        };
        /** @description The rules of a namespace: the body of `PUT /v1/namespaces/{name}`. A field that is left out is set to its default. */
        NamespaceBody: {
            /**
             * Format: uint64
             * @description The most bytes of one blob; default: 5 TiB.
             * @default 5497558138880
             */
            bytes_max?: number;
            /**
             * @description The scope that stored bytes are charged to; `null`: none. It has a budget with lifetime limits only.
             * @default null
             */
            charge?: string | null;
            /** @description The same as `grace_ms`, as a duration such as `10m` or `1h30m`. */
            grace?: string;
            /**
             * Format: int64
             * @description How long a deleted blob can be restored, in milliseconds; default: 7 days.
             * @default 604800000
             */
            grace_ms?: number;
            /** @description Ignored: a field of the answer, which may be sent back. */
            name?: unknown;
            /** @description Why the namespace is changed; recorded in the journal. */
            reason?: string | null;
            /** @description The same as `unreferenced_ms`, as a duration such as `10m` or `1h30m`. */
            unreferenced?: string | null;
            /**
             * Format: int64
             * @description How long a blob without references is kept, in milliseconds; `null`: until it is deleted.
             * @default null
             */
            unreferenced_ms?: number | null;
        };
        /** @description A query or body without fields. Any field is an error that names it. */
        NoFields: Record<string, never>;
        /**
         * @description What the expiry of a hold does: it posts units, so that spend does not vanish with a process that died. A commit after
         *     the expiry corrects them to the actual units.
         */
        OnExpiryBody: {
            /**
             * Format: int64
             * @description The units of each charge to post at the instant of expiry; at most as many as it holds.
             */
            charge: number;
        };
        /** @description What a worker should do with a job that it has leased. */
        Order: "continue" | "cancel" | "drain";
        /** @description An object that no blob names. */
        OrphanAnswer: {
            /** @description The backend that has it. */
            backend: string;
            /**
             * Format: uint64
             * @description Its length in bytes.
             */
            bytes: number;
            /** @description Its name there. */
            path: string;
        };
        /** @description What a scan found. */
        OrphansAnswer: {
            /**
             * Format: uint64
             * @description The live blobs that were looked at.
             */
            blobs: number;
            /**
             * Format: uint64
             * @description How many of them were deleted.
             */
            deleted: number;
            /** @description The live blobs whose bytes are missing, at most 1,000 of them. */
            missing: string[];
            /**
             * Format: uint64
             * @description The number of all such blobs.
             */
            missing_total: number;
            /**
             * Format: uint64
             * @description The objects that were looked at.
             */
            objects: number;
            /**
             * Format: uint64
             * @description Their bytes.
             */
            orphan_bytes: number;
            /** @description The objects that no blob names, at most 1,000 of them. */
            orphans: components["schemas"]["OrphanAnswer"][];
            /**
             * Format: uint64
             * @description The number of all such objects.
             */
            orphans_total: number;
        };
        /** @description A scan for orphans. */
        OrphansBody: {
            /**
             * @description Whether to delete the objects that no blob names and that are older than an hour; default: false.
             * @default false
             */
            remove?: boolean;
        };
        /** @description What to do while the job of the last tick has not ended. */
        Overlap: "allow" | "skip" | "cancel";
        /** @description One page of a list. */
        PageOfAttemptAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["AttemptAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfBlobAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["BlobAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfBudgetAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["BudgetAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfCredentialAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["CredentialAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfDayCostAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["DayCostAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfDeadGroupAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["DeadGroupAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfEventAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["EventAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfGrantAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["GrantAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfHeldAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["HeldAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfHoldAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["HoldAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfJobAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["JobAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfLinkInfo: {
            /** @description The items of this page. */
            items: components["schemas"]["LinkInfo"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfNamespaceAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["NamespaceAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfQueueAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["QueueAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfScheduleAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["ScheduleAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description One page of a list. */
        PageOfTenantAnswer: {
            /** @description The items of this page. */
            items: components["schemas"]["TenantAnswer"][];
            /** @description The cursor of the next page; `null` on the last page. */
            next?: string | null;
        };
        /** @description A part that was uploaded. */
        PartBody: {
            /** @description The `ETag` that its upload was answered with. */
            etag: string;
            /**
             * Format: uint
             * @description Its number, from 1.
             */
            number: number;
        };
        /** @description Where a part of the bytes goes. */
        PartTarget: {
            /**
             * Format: uint
             * @description Its number, from 1.
             */
            number: number;
            /**
             * Format: uint64
             * @description The position of its first byte.
             */
            offset: number;
            /**
             * Format: uint64
             * @description Its length in bytes.
             */
            size: number;
            /** @description Its address. The answer has an `ETag` that the commit names. */
            url: string;
        };
        /** @description A name, or a prefix of names before a `*`. */
        Pattern: string;
        /** @description A hold that was placed. */
        PlacedAnswer: {
            /** @description The charges of the hold. */
            charges: components["schemas"]["ChargeAnswer"][];
            /** @description The requested time to live and the one that the budgets allow; missing if they are the same. */
            clamped?: components["schemas"]["ClampedAnswer"] | null;
            /** @description When the hold expires; `null` if it lasts until its job ends. */
            expires_at?: string | null;
            /** @description The id of the hold; missing if the command was only checked. */
            id?: string | null;
            state: components["schemas"]["HoldState"];
        };
        /** @description A signed upload. */
        PresignAnswer: {
            blob: components["schemas"]["BlobAnswer"];
            /** @description Where to send the bytes; `null` if the namespace has them already, so that the blob is live. */
            upload?: components["schemas"]["UploadTarget"] | null;
        };
        /** @description A blob to upload by a signed request. */
        PresignBody: {
            /**
             * @description Its media type; default: `application/octet-stream`.
             * @default null
             */
            content_type?: string | null;
            /** @description The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`. */
            expires_in?: string | null;
            /**
             * Format: uint64
             * @description How long the signature is valid, in milliseconds, at most seven days; default: one hour.
             * @default null
             */
            expires_in_ms?: number | null;
            /**
             * @description The file name to offer it under.
             * @default null
             */
            filename?: string | null;
            /**
             * @description JSON that is stored with the blob.
             * @default null
             */
            metadata?: unknown;
            /**
             * @description Its namespace; default: `default`.
             * @default null
             */
            namespace?: string | null;
            /** @description The SHA-256 of its bytes, in hexadecimal. */
            sha256: string;
            /**
             * Format: uint64
             * @description Its length in bytes.
             */
            size: number;
        };
        /** @description Why a request failed. */
        Problem: {
            /** @description What happened, and what the caller can do. */
            detail: string;
            /** @description The field of the request that is wrong: its path in the body, such as `charges[0].amount`, or the name of a parameter. */
            field?: string | null;
            /** @description What the caller can do in this case. */
            hint?: string | null;
            /** @description The hold or the job whose state does not allow the request, or the blob that does not exist. */
            id?: string | null;
            /** @description Why the signature of the request is refused: a stable word, such as `replayed`. */
            reason?: string | null;
            /** @description The id of the request in the server's log. */
            request_id?: string | null;
            /**
             * Format: int64
             * @description How long to wait before a retry, in milliseconds. It is an estimate: a release can make room sooner, and other requests can take
             *     the room.
             */
            retry_after_ms?: number | null;
            /** @description The scope that is unknown. */
            scope?: string | null;
            /**
             * Format: uint64
             * @description The length of the blob, in bytes, whose range cannot be satisfied.
             */
            size?: number | null;
            /** @description The state of the hold or the job that does not allow the request. */
            state?: string | null;
            /**
             * Format: uint16
             * @description The HTTP status.
             */
            status: number;
            /** @description A short text that describes the type. */
            title: string;
            /** @description The type, such as `/problems/refused`. Its last segment is stable. */
            type: string;
            /** @description Every limit, freeze and grant that refused the request. */
            violations?: components["schemas"]["ViolationAnswer"][];
        };
        /** @description The last progress report of a job. */
        ProgressAnswer: {
            /** @description When it was received. */
            at?: string | null;
            /** @description JSON for programs. */
            data: unknown;
            /**
             * Format: uint64
             * @description The number of the lease that it was reported under.
             */
            fence: number;
            /** @description A text for people. */
            message?: string | null;
            /**
             * Format: double
             * @description The percentage that is done, from 0 to 100.
             */
            percent?: number | null;
        };
        /** @description The progress of a job, which keeps the last report and sends it to listeners. It also extends the lease. */
        ProgressBody: {
            /**
             * @description Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null`
             *     removes it. At most 16 KiB.
             */
            checkpoint?: unknown;
            /**
             * @description JSON for programs; default: `null`.
             * @default null
             */
            data?: unknown;
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            /**
             * @description A text for people.
             * @default null
             */
            message?: string | null;
            /**
             * Format: double
             * @description The percentage that is done, from 0 to 100.
             * @default null
             */
            percent?: number | null;
        };
        /** @description The progress of a job. */
        ProgressFields: {
            /**
             * @description Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null` removes
             *     it. At most 16 KiB.
             */
            checkpoint?: unknown;
            /**
             * @description JSON for programs; default: `null`.
             * @default null
             */
            data?: unknown;
            /**
             * @description A text for people.
             * @default null
             */
            message?: string | null;
            /**
             * Format: double
             * @description The percentage that is done, from 0 to 100.
             * @default null
             */
            percent?: number | null;
        };
        /** @description The progress of a job, which keeps the last report and sends it to listeners. It also extends the lease. */
        ProgressItem: {
            /**
             * @description Where the work is: the next lease of the job carries it. It is in the journal. Default: the last checkpoint stays; `null`
             *     removes it. At most 16 KiB.
             */
            checkpoint?: unknown;
            /**
             * @description JSON for programs; default: `null`.
             * @default null
             */
            data?: unknown;
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            id: string;
            /**
             * @description A text for people.
             * @default null
             */
            message?: string | null;
            /**
             * Format: double
             * @description The percentage that is done, from 0 to 100.
             * @default null
             */
            percent?: number | null;
        };
        /** @description The settings of a queue and its statistics. */
        QueueAnswer: {
            /**
             * Format: uint32
             * @description How many jobs may be leased at the same time; `null`: no limit.
             * @default null
             */
            concurrency?: number | null;
            /**
             * Format: int64
             * @description How long one attempt may run, in milliseconds; `null`: no limit.
             * @default null
             */
            deadline_ms?: number | null;
            figures: components["schemas"]["FiguresAnswer"];
            /**
             * Format: uint32
             * @description How many jobs of one flow key may be leased at the same time; `null`: no limit.
             * @default null
             */
            key_concurrency?: number | null;
            /**
             * @description How many leases of one flow key may start per period; `null`: no limit.
             * @default null
             */
            key_rate?: components["schemas"]["RateBody"] | null;
            /**
             * Format: int64
             * @description How long a lease lasts without a heartbeat, in milliseconds.
             * @default 30000
             */
            lease_ms?: number;
            name: string;
            /**
             * @description No job of a paused queue is leased.
             * @default false
             */
            paused?: boolean;
            /**
             * @description How many leases may start per period; `null`: no limit.
             * @default null
             */
            rate?: components["schemas"]["RateBody"] | null;
            /** @description Why the queue is changed; recorded in the journal. */
            reason?: string | null;
            /**
             * @description How long finished jobs are kept.
             * @default {
             *       "cancelled_ms": 86400000,
             *       "dead_ms": 2592000000,
             *       "succeeded_ms": 86400000
             *     }
             */
            retention?: components["schemas"]["RetentionBody"];
            /**
             * @description How jobs are retried, unless a job has a policy of its own.
             * @default {
             *       "backoff": "exponential",
             *       "first_ms": 1000,
             *       "max_attempts": 5,
             *       "most_ms": 3600000
             *     }
             */
            retry?: components["schemas"]["RetryBody"];
        };
        /** @description The settings of a queue: the body of `PUT /v1/queues/{name}`. A field that is left out is set to its default. */
        QueueBody: {
            /**
             * Format: uint32
             * @description How many jobs may be leased at the same time; `null`: no limit.
             * @default null
             */
            concurrency?: number | null;
            /** @description The same as `deadline_ms`, as a duration such as `10m` or `1h30m`. */
            deadline?: string | null;
            /**
             * Format: int64
             * @description How long one attempt may run, in milliseconds; `null`: no limit.
             * @default null
             */
            deadline_ms?: number | null;
            /** @description Ignored: a field of the answer, which may be sent back. */
            figures?: unknown;
            /**
             * Format: uint32
             * @description How many jobs of one flow key may be leased at the same time; `null`: no limit.
             * @default null
             */
            key_concurrency?: number | null;
            /**
             * @description How many leases of one flow key may start per period; `null`: no limit.
             * @default null
             */
            key_rate?: components["schemas"]["RateBody"] | null;
            /** @description The same as `lease_ms`, as a duration such as `10m` or `1h30m`. */
            lease?: string;
            /**
             * Format: int64
             * @description How long a lease lasts without a heartbeat, in milliseconds.
             * @default 30000
             */
            lease_ms?: number;
            /** @description Ignored: a field of the answer, which may be sent back. */
            name?: unknown;
            /**
             * @description No job of a paused queue is leased.
             * @default false
             */
            paused?: boolean;
            /**
             * @description How many leases may start per period; `null`: no limit.
             * @default null
             */
            rate?: components["schemas"]["RateBody"] | null;
            /** @description Why the queue is changed; recorded in the journal. */
            reason?: string | null;
            /**
             * @description How long finished jobs are kept.
             * @default {
             *       "cancelled_ms": 86400000,
             *       "dead_ms": 2592000000,
             *       "succeeded_ms": 86400000
             *     }
             */
            retention?: components["schemas"]["RetentionBody"];
            /**
             * @description How jobs are retried, unless a job has a policy of its own.
             * @default {
             *       "backoff": "exponential",
             *       "first_ms": 1000,
             *       "max_attempts": 5,
             *       "most_ms": 3600000
             *     }
             */
            retry?: components["schemas"]["RetryBody"];
        };
        /** @description The quota of a caller. The fields other than `agent_id`, `scope` and `limits` describe the limit that leaves the fewest units. */
        QuotaAnswer: {
            /** @description The id of the caller. */
            agent_id: string;
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /** Format: int64 */
            limit?: number;
            /** @description All limits of the caller. */
            limits: components["schemas"]["QuotaLimitAnswer"][];
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /**
             * Format: int64
             * @description The units that are left.
             */
            remaining?: number;
            /**
             * Format: int64
             * @description When the whole limit is available again if nothing more is spent, in seconds since 1970; `null`: never.
             */
            reset_at?: number | null;
            /** @description The scope that is charged for the caller. */
            scope: string;
            /**
             * Format: int64
             * @description The units posted and held.
             */
            used?: number;
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window?: string;
            /**
             * Format: int64
             * @description The start of the window, in seconds since 1970; `null` if the window has no start.
             */
            window_start?: number | null;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        };
        /**
         * @description The quota of a caller after a charge that was admitted. A charge that is not admitted is answered with the problem
         *     `quota-exceeded`.
         */
        QuotaCheckAnswer: {
            /** @description Whether the quota admits the charge. It is always `true`; a refusal is a problem. */
            admitted: boolean;
            /** @description The id of the caller. */
            agent_id: string;
            /**
             * Format: int64
             * @description The units charged; 0 if the path of the operation costs nothing.
             */
            cost: number;
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /** Format: int64 */
            limit?: number;
            /** @description All limits of the caller. */
            limits: components["schemas"]["QuotaLimitAnswer"][];
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /**
             * Format: int64
             * @description The units that are left.
             */
            remaining?: number;
            /**
             * Format: int64
             * @description When the whole limit is available again if nothing more is spent, in seconds since 1970; `null`: never.
             */
            reset_at?: number | null;
            /** @description The scope that is charged for the caller. */
            scope: string;
            /**
             * Format: int64
             * @description The units posted and held.
             */
            used?: number;
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window?: string;
            /**
             * Format: int64
             * @description The start of the window, in seconds since 1970; `null` if the window has no start.
             */
            window_start?: number | null;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        };
        /** @description A charge to the quota of a caller: the body of `POST /v1/meter/check`. Either `cost` or `operation` is required. */
        QuotaCheckBody: {
            /** @description The id of the caller. */
            agent_id: string;
            /**
             * Format: int64
             * @description The units to charge.
             * @default null
             */
            cost?: number | null;
            /**
             * @description The request that the caller makes of your API. The prices of the server's configuration tell what it costs.
             * @default null
             */
            operation?: components["schemas"]["MeteredOperationBody"] | null;
        };
        /** @description One limit of a quota. */
        QuotaLimitAnswer: {
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /** Format: int64 */
            limit: number;
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /**
             * Format: int64
             * @description The units that are left.
             */
            remaining: number;
            /**
             * Format: int64
             * @description When the whole limit is available again if nothing more is spent, in seconds since 1970; `null`: never.
             */
            reset_at?: number | null;
            /**
             * Format: int64
             * @description The units posted and held.
             */
            used: number;
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window: string;
            /**
             * Format: int64
             * @description The start of the window, in seconds since 1970; `null` if the window has no start.
             */
            window_start?: number | null;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        };
        /** @description Limits for one caller: the body of `POST /v1/meter/quota/limit`. Either `limit` or `limits` is required. */
        QuotaLimitBody: {
            /** @description The id of the caller. */
            agent_id: string;
            /**
             * Format: int64
             * @description The units per window; the window is that of the default quota.
             * @default null
             */
            limit?: number | null;
            /**
             * @description Limits with windows of their own.
             * @default null
             */
            limits?: components["schemas"]["LimitBody"][] | null;
            /**
             * @description Why the limits are changed; recorded in the journal.
             * @default null
             */
            reason?: string | null;
        };
        /** @description A rate limit: a token bucket of `amount` leases that refills in `per_ms`. */
        RateBody: {
            /**
             * Format: uint32
             * @description The number of leases.
             */
            amount: number;
            /** @description The same as `per_ms`, as a duration such as `10m` or `1h30m`; one of the two is required. */
            per?: string;
            /**
             * Format: int64
             * @description The period, in milliseconds.
             */
            per_ms?: number;
        } & (unknown | unknown);
        /** @description A request whose only field is a reason. */
        ReasonBody: {
            /**
             * @description Why the request is made; recorded in the journal.
             * @default null
             */
            reason?: string | null;
        };
        /** @description A grant to redeem. */
        RedeemBody: {
            purpose: string;
            /** @description The subject that the grant was made for. */
            subject: string;
            /** @description The token of the grant. */
            token: string;
        };
        /** @description A grant that a command redeemed. */
        RedeemedAnswer: {
            /** @description The payload of the grant; `null` if it is no longer stored. */
            payload?: unknown;
            purpose: string;
        };
        /** @description A reference of the application to a blob, which keeps it from being collected. */
        ReferenceBody: {
            blob: string;
            /** @description The name of what refers to the blob, such as `post:42`. */
            by: string;
        };
        /**
         * @description How often a limit, or a freeze, has refused charges since the server started. Refusals are counted in memory and are not in the
         *     journal.
         */
        RefusalsAnswer: {
            /**
             * Format: uint64
             * @description The number of refused requests.
             */
            count: number;
            /** @description When the last one was refused. */
            last_at?: string | null;
            /** @description The scope that refused: the one that was charged, or an ancestor of it. */
            scope: string;
            /** @description The window of the limit, such as `month@Europe/Berlin`; `null` if the scope was frozen. */
            window?: string | null;
        };
        /** @description What a step of a move did. */
        RelocateAnswer: {
            /**
             * Format: uint64
             * @description Their bytes.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description The blobs that could not be moved; they stay where they are.
             */
            failed: number;
            /**
             * Format: uint64
             * @description The blobs whose bytes were moved.
             */
            moved: number;
            /** @description Where the next step goes on; `null` at the end. */
            next?: string | null;
            /**
             * Format: uint64
             * @description The blobs that were there already.
             */
            there: number;
        };
        /** @description A step of a move to another backend. */
        RelocateBody: {
            /**
             * @description The last blob of the step before.
             * @default null
             */
            after?: string | null;
            /**
             * Format: uint
             * @description The most blobs to look at; default: 100.
             * @default null
             */
            limit?: number | null;
            /** @description The backend that gets the bytes: `local` or `s3`. */
            to: string;
        };
        /** @description How long finished jobs are kept, in milliseconds; `null`: forever. */
        RetentionBody: {
            /** @description The same as `cancelled_ms`, as a duration such as `10m` or `1h30m`. */
            cancelled?: string | null;
            /**
             * Format: int64
             * @default 86400000
             */
            cancelled_ms?: number | null;
            /** @description The same as `dead_ms`, as a duration such as `10m` or `1h30m`. */
            dead?: string | null;
            /**
             * Format: int64
             * @default 2592000000
             */
            dead_ms?: number | null;
            /** @description The same as `succeeded_ms`, as a duration such as `10m` or `1h30m`. */
            succeeded?: string | null;
            /**
             * Format: int64
             * @default 86400000
             */
            succeeded_ms?: number | null;
        };
        /**
         * @description A retry policy. `backoff` decides which of the delays may be given: `first_ms` and `most_ms` for `exponential`, `delay_ms` for `fixed`,
         *     `delays_ms` for `list`.
         */
        RetryBody: {
            /**
             * @description How the delay before the next attempt is chosen.
             * @default exponential
             */
            backoff?: components["schemas"]["BackoffWord"];
            /** @description The same as `delay_ms`, as a duration such as `10m` or `1h30m`. */
            delay?: string | null;
            /**
             * Format: int64
             * @description The delay before every attempt, in milliseconds.
             */
            delay_ms?: number | null;
            /** @description The same as `delays_ms`, as a duration such as `10m` or `1h30m`. */
            delays?: string[] | null;
            /** @description The delay after the first attempt, after the second and so on, in milliseconds. The last one is used for all later attempts. */
            delays_ms?: number[] | null;
            /** @description The same as `first_ms`, as a duration such as `10m` or `1h30m`. */
            first?: string | null;
            /**
             * Format: int64
             * @description The upper bound of the first delay, in milliseconds.
             */
            first_ms?: number | null;
            /**
             * Format: uint32
             * @description The number of failed attempts after which a job is dead.
             * @default 5
             */
            max_attempts?: number;
            /** @description The same as `most_ms`, as a duration such as `10m` or `1h30m`. */
            most?: string | null;
            /**
             * Format: int64
             * @description The upper bound of all delays, in milliseconds.
             */
            most_ms?: number | null;
        };
        /** @description A job that the worker gives back. It is ready at once, and the attempt does not count. */
        ReturnBody: {
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
        };
        /** @description A job that the worker gives back. It is ready at once, and the attempt does not count. */
        ReturnItem: {
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            id: string;
        };
        /** @description The role of a principal in its tenant. */
        Role: "operator" | "admin" | "user" | "agent" | "viewer" | "worker" | "monitor";
        /** @description A token to replace. */
        RotateBody: {
            /** @description The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`. */
            expires_in?: string | null;
            /**
             * Format: int64
             * @description How long the new token is valid, in milliseconds; default: 90 days, except that an operator's token does not expire.
             * @default null
             */
            expires_in_ms?: number | null;
            /** @description The same as `overlap_ms`, as a duration such as `10m` or `1h30m`. */
            overlap?: string | null;
            /**
             * Format: int64
             * @description How long the old token stays valid, in milliseconds; default: one day.
             * @default null
             */
            overlap_ms?: number | null;
        };
        /** @description The current state of a schedule. */
        ScheduleAnswer: {
            /**
             * @description When the schedule ticks.
             * @example 30 7 * * MON-FRI
             */
            cron: string;
            /**
             * Format: int64
             * @description How long one attempt may run, in milliseconds; default: the queue's setting.
             * @default null
             */
            deadline_ms?: number | null;
            /**
             * Format: int64
             * @description How long the job waits after its tick, in milliseconds; default: 0.
             * @default 0
             */
            delay_ms?: number;
            /**
             * @description The flow key of the job.
             * @default null
             */
            key?: string | null;
            /** @description The type of work of that job. */
            kind: string;
            /** @description The job of that tick. */
            last_job?: string | null;
            /** @description The last tick that enqueued a job. */
            last_tick?: string | null;
            /**
             * Format: uint32
             * @description The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting.
             * @default null
             */
            max_attempts?: number | null;
            /**
             * @description JSON that is stored with the job for its owner; default: `null`.
             * @default null
             */
            metadata?: unknown;
            /**
             * @description What happens to ticks that were missed, for example while the server was down.
             * @default one
             */
            missed?: components["schemas"]["Missed"];
            name: string;
            /** @description The next tick; `null` if the schedule is paused or never ticks again. */
            next_at?: string | null;
            /**
             * @description What happens at a tick while the job of the previous tick has not ended.
             * @default allow
             */
            overlap?: components["schemas"]["Overlap"];
            /**
             * @description A paused schedule does not tick.
             * @default false
             */
            paused?: boolean;
            /**
             * @description JSON for the worker; default: `null`.
             * @default null
             */
            payload?: unknown;
            /**
             * Format: int16
             * @description The priority of the job; default: 0.
             * @default 0
             */
            priority?: number;
            /** @description The queue of the job that each tick enqueues. */
            queue: string;
            /** @description Why the schedule is changed; recorded in the journal. */
            reason?: string | null;
            /**
             * @description How the job is retried; default: the queue's setting.
             * @default null
             */
            retry?: components["schemas"]["RetryBody"] | null;
            /**
             * @description Tags to find the job by.
             * @default []
             */
            tags?: string[];
            /**
             * @description The time zone of `cron`, such as `Europe/Berlin`; default: UTC.
             * @default UTC
             */
            zone?: string;
        };
        /** @description A recurring job: the body of `PUT /v1/schedules/{name}`. A field that is left out is set to its default. */
        ScheduleBody: {
            /**
             * @description When the schedule ticks.
             * @example 30 7 * * MON-FRI
             */
            cron: string;
            /** @description The same as `deadline_ms`, as a duration such as `10m` or `1h30m`. */
            deadline?: string | null;
            /**
             * Format: int64
             * @description How long one attempt may run, in milliseconds; default: the queue's setting.
             * @default null
             */
            deadline_ms?: number | null;
            /** @description The same as `delay_ms`, as a duration such as `10m` or `1h30m`. */
            delay?: string;
            /**
             * Format: int64
             * @description How long the job waits after its tick, in milliseconds; default: 0.
             * @default 0
             */
            delay_ms?: number;
            /**
             * @description The flow key of the job.
             * @default null
             */
            key?: string | null;
            /** @description The type of work of that job. */
            kind: string;
            /** @description Ignored: a field of the answer, which may be sent back. */
            last_job?: unknown;
            /** @description Ignored: a field of the answer, which may be sent back. */
            last_tick?: unknown;
            /**
             * Format: uint32
             * @description The number of failed attempts after which the job is dead; default: that of `retry`, else the queue's setting.
             * @default null
             */
            max_attempts?: number | null;
            /**
             * @description JSON that is stored with the job for its owner; default: `null`.
             * @default null
             */
            metadata?: unknown;
            /**
             * @description What happens to ticks that were missed, for example while the server was down.
             * @default one
             */
            missed?: components["schemas"]["Missed"];
            /** @description Ignored: a field of the answer, which may be sent back. */
            name?: unknown;
            /** @description Ignored: a field of the answer, which may be sent back. */
            next_at?: unknown;
            /**
             * @description What happens at a tick while the job of the previous tick has not ended.
             * @default allow
             */
            overlap?: components["schemas"]["Overlap"];
            /**
             * @description A paused schedule does not tick.
             * @default false
             */
            paused?: boolean;
            /**
             * @description JSON for the worker; default: `null`.
             * @default null
             */
            payload?: unknown;
            /**
             * Format: int16
             * @description The priority of the job; default: 0.
             * @default 0
             */
            priority?: number;
            /** @description The queue of the job that each tick enqueues. */
            queue: string;
            /** @description Why the schedule is changed; recorded in the journal. */
            reason?: string | null;
            /**
             * @description How the job is retried; default: the queue's setting.
             * @default null
             */
            retry?: components["schemas"]["RetryBody"] | null;
            /**
             * @description Tags to find the job by.
             * @default []
             */
            tags?: string[];
            /**
             * @description The time zone of `cron`, such as `Europe/Berlin`; default: UTC.
             * @default UTC
             */
            zone?: string;
        };
        /** @description The spend of one scope, without that of its children. */
        ScopeActivity: {
            scope: string;
            /** @description The units posted in each minute, oldest first; negative if more were credited. */
            spent: number[];
        };
        /** @description The jobs to act on: either `ids` or `filter` is required. */
        SelectionBody: {
            /**
             * @description The `next` of an earlier answer, to continue there; only with `filter`.
             * @default null
             */
            cursor?: string | null;
            /**
             * @description Only count the jobs.
             * @default false
             */
            dry_run?: boolean;
            /**
             * @description All jobs that match.
             * @default null
             */
            filter?: components["schemas"]["FilterBody"] | null;
            /**
             * @description The jobs, by id.
             * @default []
             */
            ids?: string[];
            /**
             * Format: uint
             * @description The number of jobs after which to answer; default: 10,000.
             * @default null
             */
            limit?: number | null;
            /**
             * @description Why the jobs are changed; recorded in the journal.
             * @default null
             */
            reason?: string | null;
        };
        /** @description Counts by minute, oldest first: each list has one number for each minute of the period. */
        SeriesAnswer: {
            /** @description The jobs that were cancelled. */
            cancelled: number[];
            /** @description The jobs that died. */
            dead: number[];
            /** @description The jobs that were enqueued. */
            enqueued: number[];
            /** @description The attempts that failed. */
            failed_attempts: number[];
            /** @description When the first minute began. The last one is the current minute. */
            from: string;
            /**
             * Format: int64
             * @description The length of each step: 60000, a minute.
             */
            step_ms: number;
            /** @description The jobs that succeeded. */
            succeeded: number[];
        };
        /** @description When charges are settled. */
        SettleWord: "now" | "hold" | "job";
        /** @description A hold that was committed or released. */
        SettledAnswer: {
            /** @description The charges, with what each limit leaves. */
            charges: components["schemas"]["ChargeAnswer"][];
            id: string;
            /** @description The hold was committed after its expiry. */
            late: boolean;
            /**
             * Format: int64
             * @description The units committed above the held amount.
             */
            overrun: number;
            state: components["schemas"]["HoldState"];
            /** @description `committed_after_expiry`, `overrun`, both or none. */
            warnings: string[];
        };
        /** @description A job to run later. The attempt does not count. */
        SnoozeBody: {
            /** @description The same as `delay_ms`, as a duration such as `10m` or `1h30m`; one of the two is required. */
            delay?: string;
            /**
             * Format: int64
             * @description How long to wait before the job is ready again, in milliseconds; at most ten years.
             */
            delay_ms?: number;
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
        } & (unknown | unknown);
        /** @description A job to run later. The attempt does not count. */
        SnoozeItem: {
            /** @description The same as `delay_ms`, as a duration such as `10m` or `1h30m`; one of the two is required. */
            delay?: string;
            /**
             * Format: int64
             * @description How long to wait before the job is ready again, in milliseconds; at most ten years.
             */
            delay_ms?: number;
            /**
             * Format: uint64
             * @description The fence of the lease.
             */
            fence: number;
            id: string;
        } & (unknown | unknown);
        /** @description The units posted on a scope over time: the answer of `GET /v1/budgets/{scope}/series`. */
        SpendSeriesAnswer: {
            scope: string;
            /** @description The steps of the period, oldest first. */
            steps: components["schemas"]["SpendStep"][];
        };
        /** @description One step of a series. */
        SpendStep: {
            /** @description The start of the step. */
            from?: string | null;
            /**
             * Format: int64
             * @description The units posted in the step, negative if more were credited; `null` if adding them up took too long. The latest steps are
             *     added up first.
             */
            spent?: number | null;
            /** @description The end of the step. */
            to?: string | null;
        };
        /** @description The units posted on a scope in a period. */
        SpentAnswer: {
            /** @description The start of the period; `null`: since the first posting. */
            from?: string | null;
            scope: string;
            /**
             * Format: int64
             * @description The units posted in the period.
             */
            spent: number;
            /** @description The end of the period. */
            to?: string | null;
        };
        /** @description The object that an event changed. */
        StreamAnswer: {
            /** @description The id or the name of the object. */
            id: string;
            /** @description The type of the object, such as `hold` or `job`. */
            kind: string;
        };
        /** @description A tenant: an item of `GET /v1/tenants`. */
        TenantAnswer: {
            name: string;
        };
        /** @description What a budget counts. Amounts are whole numbers of its smallest part: with 6 decimals, `$25.00` is 25000000. */
        Unit: {
            /**
             * Format: uint8
             * @description The digits after the decimal point.
             */
            decimals: number;
            /** @description Its name, such as `usd` or `tokens`; may be empty. */
            name: string;
            /** @description What is written before an amount instead of the name after it, such as `$`. */
            symbol?: string | null;
        };
        /** @description Where the bytes of a signed upload go. */
        UploadTarget: {
            /** @description When the signature ends. */
            expires_at?: string | null;
            /** @description The headers that the request must have. */
            headers: {
                [key: string]: string;
            };
            /** @description The method: `PUT`. */
            method: string;
            /** @description The parts; `null` if all bytes go in one request. */
            parts?: components["schemas"]["PartTarget"][] | null;
            /** @description The id of an upload in parts, which the commit repeats. */
            upload_id?: string | null;
            /** @description The address for all bytes; `null` if they go in parts. */
            url?: string | null;
        };
        /** @description Units that a worker has spent. */
        Usage: {
            /**
             * Format: int64
             * @description The number of units.
             */
            amount: number;
            /** @description The scope to charge. Default: the only scope of the job's hold. */
            scope?: string | null;
        };
        /** @description The result of the integrity check: the answer of `GET /v1/verify`. */
        VerifyAnswer: {
            /** @description How many rows were checked. */
            checked: components["schemas"]["CheckedAnswer"];
            /** @description `true` if no violation was found. */
            ok: boolean;
            /** @description The violated invariants, one sentence each. */
            violations: string[];
        };
        /** @description One reason why a request was refused. */
        ViolationAnswer: {
            /**
             * Format: int64
             * @description The units that are left.
             */
            available: number;
            /** @constant */
            kind: "limit";
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /** Format: int64 */
            limit: number;
            /** @description Whether the limit can ever admit the request; `false` if the request exceeds the whole limit. */
            possible: boolean;
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /**
             * Format: int64
             * @description The units that the request needs.
             */
            requested: number;
            /**
             * Format: int64
             * @description An estimate of when the units become available by themselves, in milliseconds from now; `null` if they do not. A release
             *     can make room sooner, and other requests can take the room.
             */
            retry_after_ms?: number | null;
            scope: string;
            /**
             * @description The unit of the amounts.
             * @default {
             *       "decimals": 0,
             *       "name": "",
             *       "symbol": null
             *     }
             */
            unit?: components["schemas"]["Unit"];
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window: string;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        } | {
            /** @constant */
            kind: "frozen";
            scope: string;
        } | {
            /** @constant */
            kind: "grant";
            purpose: string;
        };
        /**
         * @description A day of the week.
         * @enum {string}
         */
        Weekday: "monday" | "tuesday" | "wednesday" | "thursday" | "friday" | "saturday" | "sunday";
        /** @description Who the caller is: the answer of `GET /v1/whoami`. */
        WhoAmIAnswer: {
            /** @description The actions that the caller may perform. */
            actions: string[];
            /** @description The name that the journal records. */
            name: string;
            role: components["schemas"]["Role"];
            /** @description The tenant whose data the caller may access. An operator may choose another one per request. */
            tenant: string;
        };
        /** @description A worker to register. */
        WorkerBody: {
            /**
             * @description What the worker may lease, and which scopes it may charge.
             * @default {
             *       "blobs": {
             *         "read": [],
             *         "write": []
             *       },
             *       "events": [],
             *       "kinds": [],
             *       "mutations": [],
             *       "queues": []
             *     }
             */
            capabilities?: components["schemas"]["Capabilities"];
            /** @description The same as `expires_in_ms`, as a duration such as `10m` or `1h30m`. */
            expires_in?: string | null;
            /**
             * Format: int64
             * @description How long its token is valid, in milliseconds; default: 90 days.
             * @default null
             */
            expires_in_ms?: number | null;
            name: string;
        };
        /** @description A worker that has asked the server for jobs. */
        WorkerSeenAnswer: {
            name: string;
            /** @description The queues it has asked for the last time. */
            queues: string[];
            /** @description When it has last asked for jobs, or stopped waiting for them. */
            seen_at?: string | null;
            /** @description Whether it is waiting for jobs now. */
            waiting: boolean;
        };
        /** @description What a budget in shadow mode admitted, and would have refused otherwise. */
        WouldRefuseAnswer: {
            /**
             * Format: int64
             * @description The units that were left.
             */
            available: number;
            /** @constant */
            kind: "limit";
            /**
             * Format: int64
             * @description The length of a `rolling` window or the refill period of a `bucket`, in milliseconds.
             */
            length_ms?: number | null;
            /** Format: int64 */
            limit: number;
            /**
             * Format: int64
             * @description The units that a `bucket` regains in `length_ms`.
             */
            refill?: number | null;
            /**
             * Format: int64
             * @description The units that the request needed.
             */
            requested: number;
            scope: string;
            /** @description The first day of a `week`. */
            week_start?: components["schemas"]["Weekday"] | null;
            /** @description `lifetime`, `rolling`, `bucket`, `hour`, `day`, `week`, `month` or `year`. */
            window: string;
            /** @description The time zone of a calendar window. */
            zone?: string | null;
        } | {
            /** @constant */
            kind: "frozen";
            /**
             * Format: int64
             * @description The units that the request needed; 0 for the extension of a hold.
             */
            requested: number;
            scope: string;
        };
    };
    responses: {
        /** @description `invalid`: Invalid request */
        400: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unauthorized`: Unauthorized: the request has no valid token; `signature-refused`: Unauthorized: the signature of the request is missing or refused */
        401: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `forbidden`: Forbidden: the caller lacks the permission */
        403: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `not-found`: Not found; `unknown-scope`: Unknown scope: it has no budget, and the request names no limit */
        404: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `method-not-allowed`: Method not allowed */
        405: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `timeout`: Timeout: the request took too long to arrive */
        408: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `refused`: Refused by a limit, a freeze, a grant or a hold's policy; `already-settled`: The hold is already settled; `lease-lost`: Lease lost: it has expired, or another worker has the job; `conflict`: Conflict with the current state */
        409: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `changed`: Precondition failed: the resource has changed */
        412: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `too-large`: Request too large */
        413: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unsupported-media-type`: Unsupported media type */
        415: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `range-not-satisfiable`: Range not satisfiable */
        416: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `too-many-attempts`: Too many failed authentication attempts; `too-many-bytes`: Too many bytes in flight for this principal; `quota-exceeded`: Quota exceeded */
        429: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `head-too-large`: Request headers too large */
        431: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `internal`: Internal error */
        500: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `overloaded`: Overloaded: too many requests are waiting; `busy`: Database busy: other transactions hold the locks; `unavailable`: Database unavailable; `storage-unavailable`: Storage for blobs unavailable; `not-ready`: Server not ready */
        503: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unknown-outcome`: Unknown outcome: the request may have been executed */
        504: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type ActedAnswer = components['schemas']['ActedAnswer'];
export type ActivityAnswer = components['schemas']['ActivityAnswer'];
export type ActorAnswer = components['schemas']['ActorAnswer'];
export type ActualBody = components['schemas']['ActualBody'];
export type AttemptAnswer = components['schemas']['AttemptAnswer'];
export type BackoffWord = components['schemas']['BackoffWord'];
export type BalanceAnswer = components['schemas']['BalanceAnswer'];
export type BeatItem = components['schemas']['BeatItem'];
export type BeatenAnswer = components['schemas']['BeatenAnswer'];
export type BlobAnswer = components['schemas']['BlobAnswer'];
export type BlobCapabilities = components['schemas']['BlobCapabilities'];
export type BlobListWord = components['schemas']['BlobListWord'];
export type BlobStateWord = components['schemas']['BlobStateWord'];
export type BudgetAnswer = components['schemas']['BudgetAnswer'];
export type BudgetBody = components['schemas']['BudgetBody'];
export type BulkBody = components['schemas']['BulkBody'];
export type Capabilities = components['schemas']['Capabilities'];
export type ChargeAnswer = components['schemas']['ChargeAnswer'];
export type ChargeBody = components['schemas']['ChargeBody'];
export type CheckedAnswer = components['schemas']['CheckedAnswer'];
export type ClampedAnswer = components['schemas']['ClampedAnswer'];
export type CommandAnswer = components['schemas']['CommandAnswer'];
export type CommandBody = components['schemas']['CommandBody'];
export type CommitBlobBody = components['schemas']['CommitBlobBody'];
export type CommitBody = components['schemas']['CommitBody'];
export type CompleteBody = components['schemas']['CompleteBody'];
export type CompleteItem = components['schemas']['CompleteItem'];
export type ContextBody = components['schemas']['ContextBody'];
export type CostAnswer = components['schemas']['CostAnswer'];
export type Cover = components['schemas']['Cover'];
export type CredentialAnswer = components['schemas']['CredentialAnswer'];
export type CreditBody = components['schemas']['CreditBody'];
export type CreditedAnswer = components['schemas']['CreditedAnswer'];
export type DayCostAnswer = components['schemas']['DayCostAnswer'];
export type DeadGroupAnswer = components['schemas']['DeadGroupAnswer'];
export type EditBody = components['schemas']['EditBody'];
export type EditManyBody = components['schemas']['EditManyBody'];
export type EmitBody = components['schemas']['EmitBody'];
export type EnqueuedAnswer = components['schemas']['EnqueuedAnswer'];
export type EnqueuedJobsAnswer = components['schemas']['EnqueuedJobsAnswer'];
export type ErrorAnswer = components['schemas']['ErrorAnswer'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type EventAnswer = components['schemas']['EventAnswer'];
export type ExtendBody = components['schemas']['ExtendBody'];
export type ExtendedAnswer = components['schemas']['ExtendedAnswer'];
export type FailBody = components['schemas']['FailBody'];
export type FailItem = components['schemas']['FailItem'];
export type FiguresAnswer = components['schemas']['FiguresAnswer'];
export type FilterBody = components['schemas']['FilterBody'];
export type FinishedAnswer = components['schemas']['FinishedAnswer'];
export type FreezeAnswer = components['schemas']['FreezeAnswer'];
export type GcAnswer = components['schemas']['GcAnswer'];
export type GcBody = components['schemas']['GcBody'];
export type GrantAnswer = components['schemas']['GrantAnswer'];
export type HealthAnswer = components['schemas']['HealthAnswer'];
export type HeartbeatBody = components['schemas']['HeartbeatBody'];
export type HeldAnswer = components['schemas']['HeldAnswer'];
export type HeldChargeAnswer = components['schemas']['HeldChargeAnswer'];
export type HeldUnitsAnswer = components['schemas']['HeldUnitsAnswer'];
export type HoldAnswer = components['schemas']['HoldAnswer'];
export type HoldBody = components['schemas']['HoldBody'];
export type HoldPolicyBody = components['schemas']['HoldPolicyBody'];
export type HoldState = components['schemas']['HoldState'];
export type IssuedAnswer = components['schemas']['IssuedAnswer'];
export type ItemAnswerOfBeatenAnswer = components['schemas']['ItemAnswerOfBeatenAnswer'];
export type ItemAnswerOfFinishedAnswer = components['schemas']['ItemAnswerOfFinishedAnswer'];
export type ItemsAnswerOfBeatenAnswer = components['schemas']['ItemsAnswerOfBeatenAnswer'];
export type ItemsAnswerOfFinishedAnswer = components['schemas']['ItemsAnswerOfFinishedAnswer'];
export type ItemsBodyOfBeatItem = components['schemas']['ItemsBodyOfBeatItem'];
export type ItemsBodyOfCompleteItem = components['schemas']['ItemsBodyOfCompleteItem'];
export type ItemsBodyOfFailItem = components['schemas']['ItemsBodyOfFailItem'];
export type ItemsBodyOfProgressItem = components['schemas']['ItemsBodyOfProgressItem'];
export type ItemsBodyOfReturnItem = components['schemas']['ItemsBodyOfReturnItem'];
export type ItemsBodyOfSnoozeItem = components['schemas']['ItemsBodyOfSnoozeItem'];
export type JobAct = components['schemas']['JobAct'];
export type JobAnswer = components['schemas']['JobAnswer'];
export type JobBody = components['schemas']['JobBody'];
export type JobState = components['schemas']['JobState'];
export type KeyBody = components['schemas']['KeyBody'];
export type LeaseAnswer = components['schemas']['LeaseAnswer'];
export type LeaseBody = components['schemas']['LeaseBody'];
export type LeasedAnswer = components['schemas']['LeasedAnswer'];
export type LeasedJobsAnswer = components['schemas']['LeasedJobsAnswer'];
export type LeftAnswer = components['schemas']['LeftAnswer'];
export type LimitBody = components['schemas']['LimitBody'];
export type LinkAct = components['schemas']['LinkAct'];
export type LinkAnswer = components['schemas']['LinkAnswer'];
export type LinkBody = components['schemas']['LinkBody'];
export type LinkInfo = components['schemas']['LinkInfo'];
export type ListOrder = components['schemas']['ListOrder'];
export type MeteredOperationBody = components['schemas']['MeteredOperationBody'];
export type MintBody = components['schemas']['MintBody'];
export type MintedAnswer = components['schemas']['MintedAnswer'];
export type Missed = components['schemas']['Missed'];
export type MoveBody = components['schemas']['MoveBody'];
export type MoveManyBody = components['schemas']['MoveManyBody'];
export type NamespaceAnswer = components['schemas']['NamespaceAnswer'];
export type NamespaceBody = components['schemas']['NamespaceBody'];
export type NoFields = components['schemas']['NoFields'];
export type OnExpiryBody = components['schemas']['OnExpiryBody'];
export type Order = components['schemas']['Order'];
export type OrphanAnswer = components['schemas']['OrphanAnswer'];
export type OrphansAnswer = components['schemas']['OrphansAnswer'];
export type OrphansBody = components['schemas']['OrphansBody'];
export type Overlap = components['schemas']['Overlap'];
export type PageOfAttemptAnswer = components['schemas']['PageOfAttemptAnswer'];
export type PageOfBlobAnswer = components['schemas']['PageOfBlobAnswer'];
export type PageOfBudgetAnswer = components['schemas']['PageOfBudgetAnswer'];
export type PageOfCredentialAnswer = components['schemas']['PageOfCredentialAnswer'];
export type PageOfDayCostAnswer = components['schemas']['PageOfDayCostAnswer'];
export type PageOfDeadGroupAnswer = components['schemas']['PageOfDeadGroupAnswer'];
export type PageOfEventAnswer = components['schemas']['PageOfEventAnswer'];
export type PageOfGrantAnswer = components['schemas']['PageOfGrantAnswer'];
export type PageOfHeldAnswer = components['schemas']['PageOfHeldAnswer'];
export type PageOfHoldAnswer = components['schemas']['PageOfHoldAnswer'];
export type PageOfJobAnswer = components['schemas']['PageOfJobAnswer'];
export type PageOfLinkInfo = components['schemas']['PageOfLinkInfo'];
export type PageOfNamespaceAnswer = components['schemas']['PageOfNamespaceAnswer'];
export type PageOfQueueAnswer = components['schemas']['PageOfQueueAnswer'];
export type PageOfScheduleAnswer = components['schemas']['PageOfScheduleAnswer'];
export type PageOfTenantAnswer = components['schemas']['PageOfTenantAnswer'];
export type PartBody = components['schemas']['PartBody'];
export type PartTarget = components['schemas']['PartTarget'];
export type Pattern = components['schemas']['Pattern'];
export type PlacedAnswer = components['schemas']['PlacedAnswer'];
export type PresignAnswer = components['schemas']['PresignAnswer'];
export type PresignBody = components['schemas']['PresignBody'];
export type Problem = components['schemas']['Problem'];
export type ProgressAnswer = components['schemas']['ProgressAnswer'];
export type ProgressBody = components['schemas']['ProgressBody'];
export type ProgressFields = components['schemas']['ProgressFields'];
export type ProgressItem = components['schemas']['ProgressItem'];
export type QueueAnswer = components['schemas']['QueueAnswer'];
export type QueueBody = components['schemas']['QueueBody'];
export type QuotaAnswer = components['schemas']['QuotaAnswer'];
export type QuotaCheckAnswer = components['schemas']['QuotaCheckAnswer'];
export type QuotaCheckBody = components['schemas']['QuotaCheckBody'];
export type QuotaLimitAnswer = components['schemas']['QuotaLimitAnswer'];
export type QuotaLimitBody = components['schemas']['QuotaLimitBody'];
export type RateBody = components['schemas']['RateBody'];
export type ReasonBody = components['schemas']['ReasonBody'];
export type RedeemBody = components['schemas']['RedeemBody'];
export type RedeemedAnswer = components['schemas']['RedeemedAnswer'];
export type ReferenceBody = components['schemas']['ReferenceBody'];
export type RefusalsAnswer = components['schemas']['RefusalsAnswer'];
export type RelocateAnswer = components['schemas']['RelocateAnswer'];
export type RelocateBody = components['schemas']['RelocateBody'];
export type RetentionBody = components['schemas']['RetentionBody'];
export type RetryBody = components['schemas']['RetryBody'];
export type ReturnBody = components['schemas']['ReturnBody'];
export type ReturnItem = components['schemas']['ReturnItem'];
export type Role = components['schemas']['Role'];
export type RotateBody = components['schemas']['RotateBody'];
export type ScheduleAnswer = components['schemas']['ScheduleAnswer'];
export type ScheduleBody = components['schemas']['ScheduleBody'];
export type ScopeActivity = components['schemas']['ScopeActivity'];
export type SelectionBody = components['schemas']['SelectionBody'];
export type SeriesAnswer = components['schemas']['SeriesAnswer'];
export type SettleWord = components['schemas']['SettleWord'];
export type SettledAnswer = components['schemas']['SettledAnswer'];
export type SnoozeBody = components['schemas']['SnoozeBody'];
export type SnoozeItem = components['schemas']['SnoozeItem'];
export type SpendSeriesAnswer = components['schemas']['SpendSeriesAnswer'];
export type SpendStep = components['schemas']['SpendStep'];
export type SpentAnswer = components['schemas']['SpentAnswer'];
export type StreamAnswer = components['schemas']['StreamAnswer'];
export type TenantAnswer = components['schemas']['TenantAnswer'];
export type Unit = components['schemas']['Unit'];
export type UploadTarget = components['schemas']['UploadTarget'];
export type Usage = components['schemas']['Usage'];
export type VerifyAnswer = components['schemas']['VerifyAnswer'];
export type ViolationAnswer = components['schemas']['ViolationAnswer'];
export type Weekday = components['schemas']['Weekday'];
export type WhoAmIAnswer = components['schemas']['WhoAmIAnswer'];
export type WorkerBody = components['schemas']['WorkerBody'];
export type WorkerSeenAnswer = components['schemas']['WorkerSeenAnswer'];
export type WouldRefuseAnswer = components['schemas']['WouldRefuseAnswer'];
export type Response400 = components['responses']['400'];
export type Response401 = components['responses']['401'];
export type Response403 = components['responses']['403'];
export type Response404 = components['responses']['404'];
export type Response405 = components['responses']['405'];
export type Response408 = components['responses']['408'];
export type Response409 = components['responses']['409'];
export type Response412 = components['responses']['412'];
export type Response413 = components['responses']['413'];
export type Response415 = components['responses']['415'];
export type Response416 = components['responses']['416'];
export type Response429 = components['responses']['429'];
export type Response431 = components['responses']['431'];
export type Response500 = components['responses']['500'];
export type Response503 = components['responses']['503'];
export type Response504 = components['responses']['504'];
export type $defs = Record<string, never>;
export interface operations {
    get_api: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html; charset=utf-8": unknown;
                };
            };
            400: components["responses"]["400"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_l_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @example blk_0123456789 */
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            /** @description The range of bytes */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            /** @description The bytes are at the address in `Location` */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The caller has these bytes already */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            404: components["responses"]["404"];
            412: components["responses"]["412"];
            416: components["responses"]["416"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    put_l_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @example blk_0123456789 */
                token: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_livez: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthAnswer"];
                };
            };
            400: components["responses"]["400"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_metrics: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain; version=0.0.4; charset=utf-8": unknown;
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_problems_type: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @example refused */
                type: "invalid" | "unauthorized" | "signature-refused" | "forbidden" | "not-found" | "unknown-scope" | "method-not-allowed" | "timeout" | "refused" | "already-settled" | "lease-lost" | "conflict" | "changed" | "too-large" | "unsupported-media-type" | "range-not-satisfiable" | "too-many-attempts" | "too-many-bytes" | "quota-exceeded" | "head-too-large" | "internal" | "overloaded" | "busy" | "unavailable" | "storage-unavailable" | "unusable" | "not-ready" | "unknown-outcome";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain; charset=utf-8": unknown;
                };
            };
            400: components["responses"]["400"];
            404: components["responses"]["404"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthAnswer"];
                };
            };
            400: components["responses"]["400"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_activity: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActivityAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_blobs: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example blob_01j9zq3v4w5x6y7z8abcdefghj
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
                /**
                 * @description The namespace of the blobs. Default: all.
                 * @example media
                 */
                namespace?: string | null;
                /**
                 * @description The order of the blobs: `oldest` or `newest` first. Default: `oldest`.
                 * @example newest
                 */
                order?: components["schemas"]["ListOrder"];
                /**
                 * @description Which blobs: `live`, `deleted`, `pending` or `all`. Default: `live`.
                 * @example deleted
                 */
                state?: components["schemas"]["BlobListWord"];
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfBlobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_blobs: {
        parameters: {
            query?: {
                /**
                 * @description The file name to offer it under.
                 * @example cat.png
                 */
                filename?: string | null;
                /**
                 * @description JSON to store with the blob.
                 * @example {"album":7}
                 */
                metadata?: string | null;
                /**
                 * @description The namespace of the blob. Default: `default`.
                 * @example media
                 */
                namespace?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BlobAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BlobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_gc: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "dry_run": true
                 *     }
                 */
                "application/json": components["schemas"]["GcBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GcAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_move: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "to": "s3"
                 *     }
                 */
                "application/json": components["schemas"]["RelocateBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RelocateAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_orphans: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "remove": false
                 *     }
                 */
                "application/json": components["schemas"]["OrphansBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrphansAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_presign: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "content_type": "image/png",
                 *       "filename": "cat.png",
                 *       "namespace": "media",
                 *       "sha256": "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
                 *       "size": 1024
                 *     }
                 */
                "application/json": components["schemas"]["PresignBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PresignAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_uploads: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/offset+octet-stream": string;
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    options_blobs_uploads: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_blobs_uploads_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_blobs_uploads_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    patch_blobs_uploads_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/offset+octet-stream": string;
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_blobs_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            /** @description The range of bytes */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            /** @description The bytes are at the address in `Location` */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The caller has these bytes already */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            412: components["responses"]["412"];
            416: components["responses"]["416"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_blobs_id: {
        parameters: {
            query?: {
                /**
                 * @description A reason that the journal records.
                 * @example typo
                 */
                reason?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_id_commit: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["CommitBlobBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BlobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_id_link: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "expires_in_ms": 3600000
                 *     }
                 */
                "application/json": components["schemas"]["LinkBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinkAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LinkAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_blobs_id_meta: {
        parameters: {
            query?: {
                /**
                 * @description Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
                 *     now.
                 * @example 2026-11-01T00:00:00Z
                 */
                at?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BlobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    put_blobs_id_references_name: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
                /** @example post:42 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "published"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    delete_blobs_id_references_name: {
        parameters: {
            query?: {
                /**
                 * @description A reason that the journal records.
                 * @example typo
                 */
                reason?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
                /** @example post:42 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_blobs_id_restore: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example blob_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "deleted by mistake"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BlobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_budgets: {
        parameters: {
            query?: {
                /** @example room:sales */
                cursor?: string | null;
                /** @example 100 */
                limit?: number | null;
                /**
                 * @description Only scopes that begin with this text.
                 * @example room:
                 */
                prefix?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfBudgetAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_budgets_scope: {
        parameters: {
            query?: {
                /**
                 * @description Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
                 *     now.
                 * @example 2026-11-01T00:00:00Z
                 */
                at?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BudgetAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    put_budgets_scope: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        /** @description The answer of a `GET` can be changed and sent back: its read-only fields are accepted and ignored (`scope`, `frozen`, `freeze`, `balances`, `refusals`). */
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "limits": [
                 *         {
                 *           "amount": 25000000,
                 *           "window": "month@Europe/Berlin"
                 *         },
                 *         {
                 *           "amount": 500000,
                 *           "window": "rolling:1h"
                 *         }
                 *       ],
                 *       "reason": "autumn plan",
                 *       "thresholds": [
                 *         50,
                 *         80,
                 *         100
                 *       ],
                 *       "unit": "usd"
                 *     }
                 */
                "application/json": components["schemas"]["BudgetBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BudgetAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    delete_budgets_scope: {
        parameters: {
            query?: {
                /**
                 * @description A reason that the journal records.
                 * @example typo
                 */
                reason?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_budgets_scope_credits: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "amount": 1000,
                 *       "reason": "refund"
                 *     }
                 */
                "application/json": components["schemas"]["CreditBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreditedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_budgets_scope_freeze: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "audit"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BudgetAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_budgets_scope_history: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example tx_01j9zq3v4w5x6y7z8abcdefghj.0
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of events, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfEventAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_budgets_scope_series: {
        parameters: {
            query?: {
                /**
                 * @description Start of the period, inclusive: a date, an instant, `now`, or how long ago, such as `-7d`. Default: a day before its end.
                 * @example 2026-11-01T00:00:00Z
                 */
                from?: string | null;
                /**
                 * @description The number of equal steps, from 1 to 120. Default: 60.
                 * @example 60
                 */
                steps?: number | null;
                /**
                 * @description End of the period, exclusive, in the same forms. Default: now.
                 * @example 2026-12-01T00:00:00Z
                 */
                to?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SpendSeriesAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_budgets_scope_spent: {
        parameters: {
            query?: {
                /**
                 * @description Start of the period, inclusive: a date (its first instant in UTC), an instant, `now`, or how long ago, such as `-7d`.
                 *     Default: the beginning of the journal.
                 * @example 2026-11-01T00:00:00Z
                 */
                from?: string | null;
                /**
                 * @description End of the period, exclusive, in the same forms. Default: now.
                 * @example 2026-12-01T00:00:00Z
                 */
                to?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SpentAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_budgets_scope_unfreeze: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example room:sales */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "audit is over"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BudgetAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_commands: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "charges": [
                 *         {
                 *           "amount": 50000,
                 *           "limits": [
                 *             {
                 *               "amount": 100000,
                 *               "length_ms": 3600000,
                 *               "window": "rolling"
                 *             }
                 *           ],
                 *           "scope": "room:sales"
                 *         }
                 *       ],
                 *       "jobs": [
                 *         {
                 *           "idempotency_key": "gen-7",
                 *           "kind": "video.generate",
                 *           "payload": {
                 *             "prompt": "a harbour"
                 *           },
                 *           "queue": "media"
                 *         }
                 *       ],
                 *       "settle": "job"
                 *     }
                 */
                "application/json": components["schemas"]["CommandBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_commands_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example cmd_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_costs: {
        parameters: {
            query: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example ["2026-11-02","media","video.cut","room:sales"]
                 */
                cursor?: string | null;
                /**
                 * @description The first day in UTC: a date such as 2026-11-01, or the day of an instant, of `now`, or of so long ago, such as `-7d`.
                 * @example 2026-11-01
                 */
                from: string;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
                /**
                 * @description The last day, in the same forms. Default: the first day.
                 * @example 2026-11-30
                 */
                to?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfDayCostAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_dead: {
        parameters: {
            query?: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                cursor?: string | null;
                /**
                 * @description The fingerprint of the last error.
                 * @example k3v9w2m4x7c1b5n8
                 */
                fingerprint?: string | null;
                /**
                 * @description The flow key.
                 * @example provider-a
                 */
                key?: string | null;
                /**
                 * @description A kind, or a prefix of kinds followed by `*`.
                 * @example video.*
                 */
                kind?: string | null;
                /** @example 100 */
                limit?: number | null;
                /** @example media */
                queue?: string | null;
                /** @example trial */
                tag?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfJobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_dead_discard: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "filter": {
                 *         "queue": "media"
                 *       },
                 *       "reason": "provider is back"
                 *     }
                 */
                "application/json": components["schemas"]["SelectionBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_dead_groups: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example ["media","video.cut","k3v9w2m4x7c1b5n8"]
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
                /**
                 * @description Only jobs of this queue.
                 * @example media
                 */
                queue?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfDeadGroupAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_dead_move: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "filter": {
                 *         "queue": "media"
                 *       },
                 *       "reason": "provider is back",
                 *       "to": "slow"
                 *     }
                 */
                "application/json": components["schemas"]["MoveManyBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_dead_retry: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "filter": {
                 *         "queue": "media"
                 *       },
                 *       "reason": "provider is back"
                 *     }
                 */
                "application/json": components["schemas"]["SelectionBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_events: {
        parameters: {
            query?: {
                /**
                 * @description The last journal position that was received, if the request has no `Last-Event-ID` header.
                 * @example 1042
                 */
                after?: number | null;
                /**
                 * @description Channels, separated by commas: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`. A comma in a name must be
                 *     percent-encoded. Default: `journal`, which needs the action `journal.read`.
                 * @example queue:media,budget:room:sales
                 */
                channels?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description The position of the last event that was received; the stream resumes after it
                 * @example 1042
                 */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": unknown;
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_grants: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example grant_01j9zq3v4w5x6y7z8abcdefghj
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
                /**
                 * @description The order of the grants: `oldest` or `newest` first. Default: `oldest`.
                 * @example newest
                 */
                order?: components["schemas"]["ListOrder"];
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfGrantAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_grants: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "payload": {
                 *         "assetId": "a-1"
                 *       },
                 *       "purpose": "upload",
                 *       "subject": "session-7",
                 *       "ttl_ms": 60000
                 *     }
                 */
                "application/json": components["schemas"]["MintBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MintedAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MintedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_grants_id: {
        parameters: {
            query?: {
                /**
                 * @description Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
                 *     now.
                 * @example 2026-11-01T00:00:00Z
                 */
                at?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example grant_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GrantAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_grants_id: {
        parameters: {
            query?: {
                /**
                 * @description A reason that the journal records.
                 * @example typo
                 */
                reason?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example grant_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_grants_id_erase: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example grant_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "the customer asked for it"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_held: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example ["media","video.cut","cent"]
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
                /**
                 * @description Only holds for jobs of this queue.
                 * @example media
                 */
                queue?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfHeldAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_holds: {
        parameters: {
            query: {
                /** @example 1794736800000000.hold_01j9zq3v4w5x6y7z8abcdefghj */
                cursor?: string | null;
                /** @example 100 */
                limit?: number | null;
                /** @example room:sales */
                scope: string;
                /**
                 * @description `held`, or `expired` for expired holds that maintenance has not closed yet.
                 * @example held
                 */
                state?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfHoldAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_holds: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "charges": [
                 *         {
                 *           "amount": 50000,
                 *           "scope": "room:sales"
                 *         }
                 *       ],
                 *       "ttl": "10m"
                 *     }
                 */
                "application/json": components["schemas"]["HoldBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommandAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_holds_id: {
        parameters: {
            query?: {
                /**
                 * @description Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
                 *     now.
                 * @example 2026-11-01T00:00:00Z
                 */
                at?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example hold_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HoldAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_holds_id_commit: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example hold_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "actual": 42000
                 *     }
                 */
                "application/json": components["schemas"]["CommitBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettledAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_holds_id_extend: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example hold_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "by_ms": 30000
                 *     }
                 */
                "application/json": components["schemas"]["ExtendBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExtendedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_holds_id_history: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example tx_01j9zq3v4w5x6y7z8abcdefghj.0
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of events, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example hold_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfEventAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_holds_id_release: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example hold_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "not needed"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettledAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_jobs: {
        parameters: {
            query?: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                cursor?: string | null;
                /**
                 * @description The fingerprint of the last error.
                 * @example k3v9w2m4x7c1b5n8
                 */
                fingerprint?: string | null;
                /**
                 * @description The flow key.
                 * @example provider-a
                 */
                key?: string | null;
                /**
                 * @description A kind, or a prefix of kinds followed by `*`.
                 * @example video.*
                 */
                kind?: string | null;
                /** @example 100 */
                limit?: number | null;
                /**
                 * @description The order of the jobs: those enqueued first, `oldest`, or last, `newest`. Default: `oldest`.
                 * @example newest
                 */
                order?: components["schemas"]["ListOrder"];
                /** @example media */
                queue?: string | null;
                /**
                 * @description The state of the jobs.
                 * @example queued
                 */
                state?: string | null;
                /** @example trial */
                tag?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfJobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_jobs: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "kind": "video.generate",
                 *       "payload": {
                 *         "prompt": "a harbour"
                 *       },
                 *       "queue": "media"
                 *     }
                 */
                "application/json": components["schemas"]["JobBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnqueuedAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnqueuedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_bulk: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "jobs": [
                 *         {
                 *           "idempotency_key": "gen-7",
                 *           "kind": "video.generate",
                 *           "queue": "media"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["BulkBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnqueuedJobsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_cancel: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "filter": {
                 *         "kind": "video.*",
                 *         "queue": "media"
                 *       },
                 *       "reason": "provider was down"
                 *     }
                 */
                "application/json": components["schemas"]["SelectionBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_complete: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "fence": 17,
                 *           "id": "job_01j9zq3v4w5x6y7z8abcdefghj",
                 *           "result": null
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ItemsBodyOfCompleteItem"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemsAnswerOfFinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_edit: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "filter": {
                 *         "queue": "media"
                 *       },
                 *       "priority": 10
                 *     }
                 */
                "application/json": components["schemas"]["EditManyBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_erase: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "filter": {
                 *         "tag": "customer:7"
                 *       },
                 *       "reason": "the customer asked for it"
                 *     }
                 */
                "application/json": components["schemas"]["SelectionBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_fail: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "error": {
                 *             "kind": "timeout"
                 *           },
                 *           "fence": 17,
                 *           "id": "job_01j9zq3v4w5x6y7z8abcdefghj"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ItemsBodyOfFailItem"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemsAnswerOfFinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_heartbeat: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "fence": 17,
                 *           "id": "job_01j9zq3v4w5x6y7z8abcdefghj"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ItemsBodyOfBeatItem"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemsAnswerOfBeatenAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_lease: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "capacity": 10,
                 *       "kinds": [
                 *         "video.*"
                 *       ],
                 *       "queues": [
                 *         "media"
                 *       ],
                 *       "wait_ms": 20000
                 *     }
                 */
                "application/json": components["schemas"]["LeaseBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LeasedJobsAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_progress: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "fence": 17,
                 *           "id": "job_01j9zq3v4w5x6y7z8abcdefghj",
                 *           "message": "rendering",
                 *           "percent": 40
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ItemsBodyOfProgressItem"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemsAnswerOfBeatenAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_retry: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "filter": {
                 *         "kind": "video.*",
                 *         "queue": "media"
                 *       },
                 *       "reason": "provider was down"
                 *     }
                 */
                "application/json": components["schemas"]["SelectionBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_return: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "fence": 17,
                 *           "id": "job_01j9zq3v4w5x6y7z8abcdefghj"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ItemsBodyOfReturnItem"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemsAnswerOfFinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_snooze: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "items": [
                 *         {
                 *           "delay_ms": 60000,
                 *           "fence": 17,
                 *           "id": "job_01j9zq3v4w5x6y7z8abcdefghj"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ItemsBodyOfSnoozeItem"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemsAnswerOfFinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_jobs_id: {
        parameters: {
            query?: {
                /**
                 * @description Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
                 *     now.
                 * @example 2026-11-01T00:00:00Z
                 */
                at?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    patch_jobs_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "delay_ms": 0,
                 *       "priority": 10
                 *     }
                 */
                "application/json": components["schemas"]["EditBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_jobs_id_attempts: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfAttemptAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_jobs_id_cancel: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "typo"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_complete: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "fence": 17,
                 *       "result": {
                 *         "url": "…"
                 *       },
                 *       "usage": [
                 *         {
                 *           "amount": 42000
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["CompleteBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_discard: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "too late"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_erase: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "the customer asked for it"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_jobs_id_events: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example tx_01j9zq3v4w5x6y7z8abcdefghj.0
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of events, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfEventAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_jobs_id_events: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "data": {
                 *         "frame": 1200
                 *       },
                 *       "event": "preview.ready",
                 *       "fence": 17
                 *     }
                 */
                "application/json": components["schemas"]["EmitBody"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_fail: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "kind": "timeout",
                 *         "message": "no answer"
                 *       },
                 *       "fence": 17,
                 *       "retry_after_ms": 5000
                 *     }
                 */
                "application/json": components["schemas"]["FailBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_heartbeat: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "fence": 17,
                 *       "progress": {
                 *         "percent": 40
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["HeartbeatBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BeatenAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_move: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "queue": "slow"
                 *     }
                 */
                "application/json": components["schemas"]["MoveBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_progress: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "checkpoint": {
                 *         "frame": 1200
                 *       },
                 *       "fence": 17,
                 *       "message": "rendering",
                 *       "percent": 40
                 *     }
                 */
                "application/json": components["schemas"]["ProgressBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BeatenAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_retry: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "mended"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_return: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "fence": 17
                 *     }
                 */
                "application/json": components["schemas"]["ReturnBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_jobs_id_snooze: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example job_01j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "delay_ms": 60000,
                 *       "fence": 17
                 *     }
                 */
                "application/json": components["schemas"]["SnoozeBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FinishedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_journal: {
        parameters: {
            query?: {
                /**
                 * @description Only events after this position. Use either `after` or `cursor`.
                 * @example 1042
                 */
                after?: number | null;
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example 1042
                 */
                cursor?: number | null;
                /**
                 * @description Only events at this time or later.
                 * @example 2026-11-01T00:00:00Z
                 */
                from?: string | null;
                /**
                 * @description Only events of this kind, such as `job.succeeded`; `job` selects all kinds that begin with `job.`.
                 * @example job.succeeded
                 */
                kind?: string | null;
                /** @example 100 */
                limit?: number | null;
                /**
                 * @description The order of the events: `oldest` or `newest` first. Default: `oldest`. With `newest`, `cursor` is the position before which the page
                 *     begins.
                 * @example newest
                 */
                order?: components["schemas"]["ListOrder"];
                /**
                 * @description Only events of one resource: `job:job_…`, or an id such as `hold_…`, `blob_…` or `cmd_…`; `scope:room:sales` selects all events that
                 *     changed the scope's balance.
                 * @example scope:room:sales
                 */
                stream?: string | null;
                /**
                 * @description Only events before this time.
                 * @example 2026-12-01T00:00:00Z
                 */
                to?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfEventAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_keys: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example key_41j9zq3v4w5x6y7z8abcdefghj
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfCredentialAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_keys: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "shop",
                 *       "role": "user"
                 *     }
                 */
                "application/json": components["schemas"]["KeyBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_keys_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example key_41j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CredentialAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_keys_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example key_41j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_keys_id_rotate: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example key_41j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "overlap_ms": 3600000
                 *     }
                 */
                "application/json": components["schemas"]["RotateBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_links: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example key_41j9zq3v4w5x6y7z8abcdefghj
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfLinkInfo"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_links_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example key_41j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_meter_check: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "agent_id": "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
                 *       "cost": 11
                 *     }
                 */
                "application/json": components["schemas"]["QuotaCheckBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuotaCheckAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_meter_quota: {
        parameters: {
            query?: {
                /**
                 * @description The caller. Default: the caller of this request.
                 * @example 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a
                 */
                agent_id?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuotaAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_meter_quota_limit: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "agent_id": "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
                 *       "limit": 50000,
                 *       "reason": "paid plan"
                 *     }
                 */
                "application/json": components["schemas"]["QuotaLimitBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuotaAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_namespaces: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example media
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfNamespaceAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_namespaces_name: {
        parameters: {
            query?: {
                /**
                 * @description Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
                 *     now.
                 * @example 2026-11-01T00:00:00Z
                 */
                at?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example media */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamespaceAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    put_namespaces_name: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path: {
                /** @example media */
                name: string;
            };
            cookie?: never;
        };
        /** @description The answer of a `GET` can be changed and sent back: its read-only fields are accepted and ignored (`name`). */
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "bytes_max": 104857600,
                 *       "grace_ms": 86400000,
                 *       "unreferenced_ms": 2592000000
                 *     }
                 */
                "application/json": components["schemas"]["NamespaceBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamespaceAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_openapi_json: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            400: components["responses"]["400"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_queues: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example media
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100. Times `minutes` it may be at most 144000.
                 * @example 100
                 */
                limit?: number | null;
                /**
                 * @description The period of the statistics in minutes, from 1 to 1440. Default: 60.
                 * @example 60
                 */
                minutes?: number | null;
                /**
                 * @description Whether to return the counts of each minute as well. Default: false.
                 * @example true
                 */
                series?: boolean;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfQueueAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_queues_name: {
        parameters: {
            query?: {
                /**
                 * @description The period of the statistics in minutes, from 1 to 1440. Default: 60.
                 * @example 60
                 */
                minutes?: number | null;
                /**
                 * @description Whether to return the counts of each minute as well. Default: false.
                 * @example true
                 */
                series?: boolean;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example media */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    put_queues_name: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path: {
                /** @example media */
                name: string;
            };
            cookie?: never;
        };
        /** @description The answer of a `GET` can be changed and sent back: its read-only fields are accepted and ignored (`name`, `figures`). */
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "concurrency": 20,
                 *       "key_concurrency": 2,
                 *       "lease_ms": 30000,
                 *       "rate": {
                 *         "amount": 100,
                 *         "per_ms": 1000
                 *       },
                 *       "retry": {
                 *         "backoff": "exponential",
                 *         "first_ms": 1000,
                 *         "max_attempts": 5,
                 *         "most_ms": 3600000
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["QueueBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_queues_name_history: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example tx_01j9zq3v4w5x6y7z8abcdefghj.0
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of events, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example media */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfEventAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_queues_name_pause: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example media */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "provider is down"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_queues_name_resume: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example media */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "provider is down"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_schedules: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example nightly
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfScheduleAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_schedules_name: {
        parameters: {
            query?: {
                /**
                 * @description Return the resource as it was at this moment: a time such as `2026-11-15T10:00:00Z`, or a position of the journal. Default: as it is
                 *     now.
                 * @example 2026-11-01T00:00:00Z
                 */
                at?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example nightly */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    put_schedules_name: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path: {
                /** @example nightly */
                name: string;
            };
            cookie?: never;
        };
        /** @description The answer of a `GET` can be changed and sent back: its read-only fields are accepted and ignored (`name`, `next_at`, `last_tick`, `last_job`). */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "cron": "30 7 * * MON-FRI",
                 *       "kind": "report.daily",
                 *       "missed": "one",
                 *       "overlap": "skip",
                 *       "queue": "reports",
                 *       "zone": "Europe/Berlin"
                 *     }
                 */
                "application/json": components["schemas"]["ScheduleBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    delete_schedules_name: {
        parameters: {
            query?: {
                /**
                 * @description A reason that the journal records.
                 * @example typo
                 */
                reason?: string | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description Apply the change only if the definition or the job still has this ETag; `*`: only if it exists
                 * @example "9f2b4c6d8e0a1b3c5d7f9e1a3b5c7d9f"
                 */
                "If-Match"?: string;
            };
            path: {
                /** @example nightly */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            412: components["responses"]["412"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_schedules_name_pause: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example nightly */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "holidays"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_schedules_name_resume: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example nightly */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "holidays"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_schedules_name_run: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example nightly */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "reason": "holidays"
                 *     }
                 */
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnqueuedAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EnqueuedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_tenants: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example acme
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfTenantAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_tenants_name: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example acme */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TenantAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_verify: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerifyAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_whoami: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WhoAmIAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    get_workers: {
        parameters: {
            query?: {
                /**
                 * @description Where the page begins: `next` of the previous page.
                 * @example wkr_41j9zq3v4w5x6y7z8abcdefghj
                 */
                cursor?: string | null;
                /**
                 * @description Maximum number of items, from 1 to 1000. Default: 100.
                 * @example 100
                 */
                limit?: number | null;
            };
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PageOfCredentialAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    post_workers: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "capabilities": {
                 *         "kinds": [
                 *           "video.*"
                 *         ],
                 *         "queues": [
                 *           "media-*"
                 *         ]
                 *       },
                 *       "expires_in_ms": 86400000,
                 *       "name": "encoder"
                 *     }
                 */
                "application/json": components["schemas"]["WorkerBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    get_workers_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
            };
            path: {
                /** @example wkr_41j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CredentialAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
        };
    };
    delete_workers_id: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example wkr_41j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            409: components["responses"]["409"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
    post_workers_id_rotate: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description Operators only: the tenant to act for
                 * @example acme
                 */
                "Bursar-Tenant"?: string;
                /**
                 * @description Key of this request: a retry with the same key returns the first answer and changes nothing
                 * @example order-7
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @example wkr_41j9zq3v4w5x6y7z8abcdefghj */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "overlap_ms": 3600000
                 *     }
                 */
                "application/json": components["schemas"]["RotateBody"];
            };
        };
        responses: {
            /** @description Nothing new was created */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            /** @description Created */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuedAnswer"];
                };
            };
            400: components["responses"]["400"];
            401: components["responses"]["401"];
            403: components["responses"]["403"];
            404: components["responses"]["404"];
            408: components["responses"]["408"];
            409: components["responses"]["409"];
            413: components["responses"]["413"];
            415: components["responses"]["415"];
            429: components["responses"]["429"];
            500: components["responses"]["500"];
            503: components["responses"]["503"];
            504: components["responses"]["504"];
        };
    };
}
